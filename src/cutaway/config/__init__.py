"""`cutaway.toml`: defaults for `run` and `chat`, and the settings of a server. Options on the command line take
precedence.
"""

from cutaway.config.example import EXAMPLE
from cutaway.config.reading import (
    FILE_NAME,
    check_config,
    check_names,
    check_served,
    config_paths,
    find_config,
    load_config,
    parse_config,
    sampling_settings,
    settings,
)
from cutaway.config.sections import (
    Config,
    LimitsConfig,
    LoggingConfig,
    ModelConfig,
    RecordConfig,
    SamplingDefaults,
    ServerConfig,
    TelemetryConfig,
    parse_bytes,
)

__all__ = [
    "EXAMPLE",
    "FILE_NAME",
    "Config",
    "LimitsConfig",
    "LoggingConfig",
    "ModelConfig",
    "RecordConfig",
    "SamplingDefaults",
    "ServerConfig",
    "TelemetryConfig",
    "check_config",
    "check_names",
    "check_served",
    "config_paths",
    "find_config",
    "load_config",
    "parse_bytes",
    "parse_config",
    "sampling_settings",
    "settings",
]
