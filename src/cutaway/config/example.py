"""The commented config that `cutaway config init` writes."""

EXAMPLE = """\
# Defaults for `cutaway run`, `cutaway chat` and `cutaway serve`. Options on the command line take precedence.
# Remove the `#` of a line to set its value.

# model = "smollm2-135m"          # a name (see: cutaway models --all), a path, hf:... or pypi:...
# system = "You are brief."       # the system message (run, chat)
# date = "2026-12-01"             # what chat templates see as now; else the clock
# threads = 2
# context = 4096                  # tokens of prompt and answer together
# kv_k = "bf16"                   # type of cached keys: bf16, f32, int8 or fp8
# kv_v = "bf16"                   # type of cached values, likewise; int8 has hardly any cost
# rope_scaling = "linear:2"
# speculate = "ngram"             # faster where the answer repeats earlier text; the answer is the same

[sampling]
# preset = "chat"                 # see: cutaway presets
# temperature = 0.7
# top_p = 0.9
# top_k = 40
# max_tokens = 512
# seed = 1

[server]
# host = "127.0.0.1"              # "0.0.0.0" listens on all addresses; set api_keys in that case
# port = 8000
# api_keys = ["a-long-secret"]    # or $CUTAWAY_API_KEYS, or a file with one per line:
# api_keys_file = "keys.txt"
# only_api_keys = false           # true: neither the file's nor the variable's keys are valid (as with --api-key)
# cors_origins = ["http://localhost:3000"]  # origins of web pages that may use this server
# allowed_hosts = ["llm.example.com"]  # accepted names besides localhost ("*": all), for instance behind a proxy
# trusted_proxies = ["127.0.0.1"]  # addresses whose X-Forwarded-For is used
# strict = false                  # true: an unknown field of a request is an error, not a warning
# memory = "6 GB"                 # for all models together; the default is what is available at the start
# verify = "changed"              # hash a model if its file has changed, or "always"
# max_body = 8388608              # bytes of a request
# max_depth = 100                 # nesting of a request's JSON
# body_encodings = ["gb18030", "big5"]  # also accept bodies in these encodings, with a warning
# keep_alive = 15.0               # seconds between comments on a silent stream
# send_timeout = 30.0             # seconds within which a client must read
# grace = 30.0                    # seconds that running requests have after SIGTERM
# resume = 0.0                    # seconds that a stream is kept after its client has disconnected; 0: off
# max_events = 8192               # tokens that wait for a slow client
# share_prefixes = false          # true: share prefixes between callers, who can then infer each other's prompts

[limits]
# queue = 256                     # answers that may wait; more are refused with 503
# requests_per_key = 8            # at once; more are refused with 429
# requests_per_minute = 600
# tokens_per_request = 4096
# seconds_per_request = 600.0

[logging]
# level = "info"                  # debug, info, warning, error
# format = "console"              # or json
# prompts = false                 # true: log prompts and answers
# token_share = 0.01              # share of the requests whose tokens are logged at level debug

[record]                          # of the last requests, for `cutaway requests` and /x/
# level = "contents"              # or "figures" (no token ids), or "off"
# memory = "64 MiB"
# seconds = 3600.0
# count = 10000
# folder = "records"              # each record as a file, too
# hashes = false                  # true: a hash of each token's logits, for cutaway replay

[telemetry]                       # OpenTelemetry; needs pip install 'cutaway[otel]'
# endpoint = "http://127.0.0.1:4318"  # a collector (OTLP over HTTP); the default is $OTEL_EXPORTER_OTLP_ENDPOINT
# service_name = "cutaway"

# Further names, and traffic split by weight:
# [aliases]
# "gpt-4o-mini" = "smollm2-135m"
# experiment = { "smollm2-135m" = 0.9, "qwen2.5-coder-0.5b" = 0.1 }

# Models that `cutaway serve` serves, one [[models]] each:
# [[models]]
# model = "smollm2-135m"
# name = "small"                  # the name that requests use
# load = "start"                  # or "use": on first use
# sha256 = "8c73bb7f"             # the required hash, or the beginning of it
# context = 8192
# contexts = 2                    # size of the KV cache, in full contexts
# max_requests = 16
# kv_v = "int8"
"""
