"""
Replays recorded answers of Amazon SQS against an endpoint that speaks its protocol.

A case has a kind, a title, the evidence (whether AWS's answer was recorded, asserted by a test that
passed there, or documented) and steps. A step has ``call`` and ``with``, an operation and its
parameters, and what is expected: ``gives`` (the whole answer), ``has`` (some fields) or ``fails``
(an error). ``keep`` remembers a value for later steps, ``retry`` repeats a step for some seconds,
``collect`` receives until there are so many messages, ``fork`` goes on beside the next steps until
``join``, and ``http`` is a signed request without an SDK.
"""

# ruff: noqa: PLR0911, PLR0912 - each form of a pattern is one branch

import base64
import concurrent.futures
import contextlib
import copy
import json
import re
import time
import uuid

import boto3
import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.httpsession import URLLib3Session

KEYS = ("AKIDEXAMPLE0000000", "secret-example")
PATTERNS = {
    "any": r"(?s).+", "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "digits": r"\d+",
    "epoch": r"\d{10}", "epoch_ms": r"\d{13}",
}  # fmt: skip
# What botocore has removed from its model of SQS with the query protocol.
LIST_NAMES = {
    "AWSAccountIdList": "AWSAccountId", "ActionNameList": "ActionName", "MessageList": "Message",
    "AttributeNameList": "AttributeName", "MessageAttributeNameList": "MessageAttributeName",
    "MessageSystemAttributeList": "MessageSystemAttributeName", "QueueUrlList": "QueueUrl",
    "TagKeyList": "TagKey", "StringList": "StringListValue", "BinaryList": "BinaryListValue",
}  # fmt: skip
MEMBER_NAMES = {
    "Attributes": "Attribute", "MessageAttributes": "MessageAttribute",
    "Tags": "Tag", "tags": "Tag",
    "MessageSystemAttributes": "MessageSystemAttribute",
}  # fmt: skip


def as_query(model):
    """The same model of the service with the query protocol."""
    model = copy.deepcopy(model)
    for key in ("awsQueryCompatible", "jsonVersion", "targetPrefix"):
        model["metadata"].pop(key, None)
    namespace = "http://queue.amazonaws.com/doc/2012-11-05/"
    model["metadata"].update(protocol="query", protocols=["query"], xmlNamespace=namespace)
    for name, shape in model["shapes"].items():
        if shape["type"] == "list":
            shape["member"]["locationName"] = LIST_NAMES.get(name, shape["member"]["shape"])
        elif shape["type"] == "map":
            shape["key"]["locationName"] = "Key" if name == "TagMap" else "Name"
            shape["value"]["locationName"] = "Value"
        for member, reference in shape.get("members", {}).items():
            if member in MEMBER_NAMES and model["shapes"][reference["shape"]]["type"] == "map":
                reference["locationName"] = MEMBER_NAMES[member]
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    return model


def make_client(url, protocol, region):
    session = botocore.session.get_session()
    loader = session.get_component("data_loader")
    load = loader.load_service_model

    def load_service_model(service_name, type_name, api_version=None):
        model = load(service_name, type_name, api_version)
        return as_query(model) if (service_name, type_name) == ("sqs", "service-2") else model

    if protocol == "query":
        loader.load_service_model = load_service_model
    options = Config(parameter_validation=False, retries={"max_attempts": 8}, read_timeout=60)
    return boto3.Session(*KEYS, region_name=region, botocore_session=session).client(
        "sqs", endpoint_url=url, config=options
    )


class Differs(Exception):
    pass


class Run:
    """One case: its names and values, and its steps."""

    def __init__(self, client, url, protocol, region):
        self.client, self.url, self.protocol, self.region = client, url, protocol, region
        self.refs, self.forks, self.uid = {}, {}, uuid.uuid4().hex[:10]
        self.pool = concurrent.futures.ThreadPoolExecutor(8)

    def name(self, text):
        stem, dot, suffix = text.partition(".")
        self.refs[f"name:{text}"] = f"{stem}-{self.uid}{dot}{suffix}"
        return self.refs[f"name:{text}"]

    def value(self, given):
        """The value of a part of a step, with its directives replaced."""
        if isinstance(given, list):
            return [self.value(each) for each in given]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            [(key, argument)] = given.items()
            if key == "$name":
                return self.name(argument)
            if key == "$ref":
                return self.refs[argument]
            if key == "$repeat":
                return argument[0] * argument[1]
            if key == "$bytes":
                return base64.b64decode(argument)
            if key == "$json":
                return json.dumps(self.value(argument))
            if key == "$base64":
                return base64.b64encode(self.value(argument).encode()).decode()
            if key == "$text":
                return re.sub(r"\{([^{}]+)\}", lambda m: str(self.refs[m[1]]), argument)
        return {key: self.value(each) for key, each in given.items()}

    def compare(self, pattern, got, at):
        def check(good, wanted):
            if not good:
                raise Differs(f"{at}: expected {short(wanted)}, got {short(got)}")

        if isinstance(pattern, dict) and len(pattern) == 1:
            [(key, argument)] = pattern.items()
            if key == "$":
                good = isinstance(got, (str, int)) and re.fullmatch(PATTERNS[argument], str(got))
                return check(good, argument)
            if key == "$optional":
                return self.compare(argument, got, at)
            if key == "$arn":
                arn = rf"arn:[\w-]+:sqs:[\w-]+:\d+:{re.escape(self.refs[f'name:{argument}'])}"
                return check(isinstance(got, str) and re.fullmatch(arn, got), arn)
            if key == "$json" and isinstance(got, str):
                return self.compare(argument, json.loads(got), at)
            if key == "$ends":
                return check(str(got).endswith(self.value(argument)), f"...{self.value(argument)}")
            if key == "$more_than":
                return check(int(got) > int(self.value(argument)), pattern)
            if key == "$not":
                return check(got != self.value(argument), pattern)
            if key == "$length":
                return check(len(got) == argument, f"{argument} of them")
            if key == "$either":
                return check(any(self.matches(each, got) for each in argument), pattern)
            if key == "$has":
                check(isinstance(got, dict) and argument.keys() <= got.keys(), argument)
                for name, each in argument.items():
                    self.compare(each, got[name], f"{at}.{name}")
                return None
            if key == "$set":
                check(isinstance(got, list) and len(got) == len(argument), argument)
                rest = list(got)
                for each in argument:
                    found = next((one for one in rest if self.matches(each, one)), None)
                    check(found is not None, each)
                    rest.remove(found)
                return None
            if key in ("$ref", "$text", "$repeat", "$bytes", "$base64"):
                return check(got == self.value(pattern), self.value(pattern))
        if isinstance(pattern, dict):
            check(isinstance(got, dict), pattern)
            for name, each in pattern.items():
                optional = isinstance(each, dict) and "$optional" in each
                if name not in got and not optional:
                    raise Differs(f"{at}.{name}: is missing in {short(got)}")
                if name in got:
                    self.compare(each, got[name], f"{at}.{name}")
            more = got.keys() - pattern.keys()
            return check(not more, f"no {', '.join(sorted(more))}")
        if isinstance(pattern, list):
            check(isinstance(got, list) and len(got) == len(pattern), pattern)
            for number, (each, one) in enumerate(zip(pattern, got, strict=True)):
                self.compare(each, one, f"{at}.{number}")
            return None
        return check(got == pattern, pattern)

    def matches(self, pattern, got):
        try:
            self.compare(pattern, got, "")
        except Differs:
            return False
        return True

    def call(self, step):
        """The answer of a call: a dict of fields, or a ClientError."""
        method = re.sub(r"(?<!^)([A-Z])", r"_\1", step["call"]).lower()
        try:
            answer = getattr(self.client, method)(**self.value(step.get("with", {})))
        except ClientError as error:
            return error
        answer.pop("ResponseMetadata")
        return answer

    def collect(self, step):
        """Receive until there are so many messages, as AWS may return fewer at a time."""
        messages, end = [], time.monotonic() + step.get("within", 10)
        while len(messages) < step["collect"] and time.monotonic() < end:
            answer = self.call(step)
            if isinstance(answer, ClientError):
                return answer
            messages += answer.get("Messages", [])
        return {"Messages": messages} if messages else {}

    def judge(self, step, answer):
        at = step.get("call", "http")
        if isinstance(answer, ClientError) != ("fails" in step):
            raise Differs(
                f"{at}: expected {short(step.get('fails', 'success'))}, got {short(answer)}"
            )
        if "fails" in step:
            wanted, error = dict(step["fails"]), answer.response["Error"]
            if self.protocol == "query":
                wanted.update(step.get("fails_in_query", {}))
                wanted.pop("type", None)  # the query protocol has only the code
            got = {
                "code": error.get("Code"), "message": error.get("Message"),
                "type": error.get("QueryErrorCode"), "fault": error.get("Type"),
                "status": answer.response["ResponseMetadata"]["HTTPStatusCode"],
            }  # fmt: skip
            return self.compare(wanted, {key: got[key] for key in wanted}, at)
        if "gives" in step:
            self.compare(step["gives"], answer, at)
        if "has" in step:
            self.compare({"$has": step["has"]}, answer, at)
        for name, path in step.get("keep", {}).items():
            value = answer
            for part in path.split("."):
                value = value[int(part) if part.isdigit() else part]
            self.refs[name] = value
        return None

    def http(self, step):
        """A signed request of its own, as programs without an SDK make it."""
        url = self.value(step["http"].get("url", self.url))
        request = AWSRequest(
            step["http"].get("method", "GET"), url, self.value(step["http"].get("headers", {})),
            self.value(step["http"].get("body")), self.value(step["http"].get("params", {})),
        )  # fmt: skip
        SigV4Auth(Credentials(*KEYS), "sqs", self.region).add_auth(request)
        answer = URLLib3Session(timeout=30).send(request.prepare())
        for key, value in step.get("headers", {}).items():
            self.compare(value, answer.headers.get(key), f"header {key}")
        if answer.status_code != step["status"]:
            raise Differs(
                f"status: expected {step['status']}, got {answer.status_code} {short(answer.text)}"
            )
        text = re.sub(r"\s+/>", "/>", re.sub(r">\s+<", "><", answer.text))
        for each in step.get("contains", []):
            if self.value(each) not in text:
                raise Differs(f"answer: expected {short(self.value(each))} in {short(text)}")
        for each in step.get("lacks", []):
            if self.value(each) in text:
                raise Differs(f"answer: expected no {short(self.value(each))} in {short(text)}")

    def step(self, step):
        if "sleep" in step:
            return time.sleep(step["sleep"])
        if "http" in step:
            return self.http(step)
        if "fork" in step:  # goes on beside the next steps; "after" seconds later

            def later():
                time.sleep(step.get("after", 0))
                return self.call(step)

            self.forks[step["fork"]] = self.pool.submit(later)
            return None
        began = time.monotonic()
        end = began + step.get("retry", 0)
        while True:
            if "join" in step:
                answer = self.forks[step["join"]].result(40)
            else:
                answer = self.collect(step) if "collect" in step else self.call(step)
            try:
                self.judge(step, answer)
                break
            except Differs:
                if time.monotonic() > end:
                    raise
                time.sleep(0.25)
        # How long it may take at most is no matter of a test.
        took, (low, _) = time.monotonic() - began, step.get("takes", [0, 0])
        if took < low:
            raise Differs(f"{step['call']}: expected at least {low} s, took {took:.1f} s")
        return None

    def case(self, case):
        """None, or what differs."""
        try:
            for number, step in enumerate(case["steps"], 1):
                try:
                    self.step(step)
                except EndpointConnectionError:
                    raise
                except Differs as error:
                    return f"step {number}: {error}"
                except Exception as error:  # noqa: BLE001 - no SDK can read the answer
                    call = step.get("call", "http")
                    return f"step {number}: {call}: {type(error).__name__}: {short(error)}"
            return None
        finally:
            for key in [key for key in self.refs if key.startswith("url")]:
                with contextlib.suppress(Exception):  # it is deleted already, or never was
                    self.client.delete_queue(QueueUrl=self.refs[key])
            self.pool.shutdown(wait=False)


def short(value, size=300):
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= size else f"{text[:size]}... ({len(text)} characters)"
