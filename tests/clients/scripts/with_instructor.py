"""instructor: forms by tools, by a JSON schema, and in pieces."""

import sys

import instructor
import openai
from pydantic import BaseModel, Field

url, key, model = sys.argv[1:]


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=1, le=99)


asked = {
    "messages": [{"role": "user", "content": "Jason is 25 years old."}], "model": model, "max_tokens": 300,
    "temperature": 0, "max_retries": 0,
}  # fmt: skip
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    person = instructor.from_openai(client, mode=mode).create(response_model=Person, **asked)
    assert isinstance(person, Person) and person.name, mode
last = list(instructor.from_openai(client, mode=instructor.Mode.TOOLS).create_partial(response_model=Person, **asked))
assert 1 <= last[-1].age <= 99
