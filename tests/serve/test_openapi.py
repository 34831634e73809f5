"""The API against its own OpenAPI: schemathesis makes requests up and checks that every response was promised."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import positive_data_acceptance
from served import as_png, scene

from saccade.serve import Limits, create_app

load_all_checks()
UNFIT = [positive_data_acceptance]  # no schema can say which bytes are an image

OPERATIONS = [
    ("/api/predict", "POST"),
    ("/api/health", "GET"),
    ("/api/model", "GET"),
    ("/api/example", "GET"),
    ("/api/images/{token}/tiles/{level}/{x}/{y}.jpg", "GET"),
    ("/api/images/{token}/crops/{number}.png", "GET"),
]


@pytest.fixture(scope="module")
def api(predictor):
    app = create_app(predictor, name="tiny", limits=Limits(max_bytes=100_000, timeout_s=120))
    return schemathesis.openapi.from_asgi("/api/openapi.json", app)


RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
# Nothing can be wrong about a request without parameters.
TRIED = [(*operation, RIGHT) for operation in OPERATIONS] + [
    (path, method, WRONG) for path, method in OPERATIONS if method == "POST" or "{" in path
]


@pytest.mark.parametrize(("path", "method", "mode"), TRIED)
def test_every_response_is_as_promised(api, path, method, mode):
    operation, seen = api[path][method], Counter()

    @settings(
        max_examples=15,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        seen[case.call_and_validate(excluded_checks=UNFIT).status_code] += 1

    check()
    assert seen


def test_all_operations_are_tried_and_all_refusals_promised(api):
    operations = [result.ok() for result in api.get_all_operations()]
    assert sorted((operation.path, operation.method.upper()) for operation in operations) == sorted(OPERATIONS)
    promised = set(api.raw_schema["paths"]["/api/predict"]["post"]["responses"])
    assert promised == {"200", "400", "401", "403", "404", "408", "411", "413", "415", "422", "500", "503", "504"}
    for operation in operations:
        responses = api.raw_schema["paths"][operation.path][operation.method]["responses"]
        assert "500" in responses
        assert "Retry-After" in responses["503"]["headers"]


def test_a_real_image_gets_a_promised_answer(api):
    operation = api["/api/predict"]["POST"]
    case = operation.Case(body={"file": as_png(scene())}, media_type="multipart/form-data")
    response = case.call()
    case.validate_response(response)
    assert response.status_code == 200
