"""lm-eval: log-likelihoods and answers of its own requests, printed as JSON. It asks the server for tokens."""

import json
import sys

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

url, key, model = sys.argv[1:]
PAIRS = [
    ("The capital of France is", " Paris"), ("The capital of France is", " a large town"),
    ("Two and two are", " four."), ("", "A text without a beginning."), ("北京是中国的", "首都。"),
]  # fmt: skip


def asked(kind, arguments):
    return [Instance(request_type=kind, doc={}, arguments=each, idx=i) for i, each in enumerate(arguments)]


lm = LocalCompletionsAPI(base_url=f"{url}/v1/completions", model=model, auth_token=key, max_length=512, batch_size=2)
assert lm.tokenizer_backend == "remote", lm.tokenizer_backend
scores = lm.loglikelihood(asked("loglikelihood", PAIRS), disable_tqdm=True)
sun = asked("loglikelihood_rolling", [("The sun rises in the east.",)])
(rolling,) = lm.loglikelihood_rolling(sun, disable_tqdm=True)
(text,) = lm.generate_until(
    asked("generate_until", [("One, two, three,", {"until": ["\n"], "max_gen_toks": 8})]), disable_tqdm=True
)
print("RESULT " + json.dumps({"pairs": PAIRS, "scores": scores, "rolling": rolling, "text": text}))
