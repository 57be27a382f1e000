"""A backend for each test, in a server of this process."""

from __future__ import annotations

import itertools

import pytest
from django.test import override_settings

from tests.django.environment import Environment, tasks_setting

_numbers = itertools.count()


@pytest.fixture
def url():
    return f"memory://django-{next(_numbers)}"


@pytest.fixture
def options():
    """Options of the backend; a test parametrizes them."""
    return {}


@pytest.fixture
def env(url, options):
    with override_settings(TASKS=tasks_setting(url, **options)):
        environment = Environment()
        yield environment
        environment.client.close()
