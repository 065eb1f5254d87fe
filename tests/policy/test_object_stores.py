"""Files in object stores are named by their addresses, and whoever reads a policy gets no access to them."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.errors import InvalidPolicy
from sfumato.policy import Table
from sfumato.policy.table_sources import SparkTable


def _table(source: str, **said: Any) -> Table:
    return Table("t", source, {"a": {"type": "integer"}}, id="row", **said)


@pytest.mark.parametrize(
    "path",
    [
        "s3a://key:hidden@clinic/visits",
        "s3://hidden@clinic/visits",
        "gs://hidden@clinic/visits",
        "S3A://key:hid%40den@clinic/visits",
        "s3a://key:hid@den@clinic/visits",
        "s3a://key:hidd/en@clinic/visits",
        "abfss://visits:hidden@clinic.dfs.core.windows.net/",
        "wasbs://visits@clinic.blob.core.windows.net/t?sv=2024&sig=hidden",
        "https://clinic.s3.amazonaws.com/t.parquet?X-Amz-Signature=hidden",
        "https://clinic.s3.amazonaws.com/t.parquet?AWSAccessKeyId=hidden",
        "https://storage.googleapis.com/clinic/t?x-goog-signature=hidden",
    ],
)
def test_credentials_in_a_path_are_refused(path: str) -> None:
    with pytest.raises(InvalidPolicy, match="must not contain credentials") as refusal:
        _table("sc://host:15002", path=path, format="parquet")
    assert "hidden" not in str(refusal.value)
    assert "hidd" not in str(refusal.value)
    assert "den@" not in str(refusal.value)


@pytest.mark.parametrize(
    "path",
    [
        "s3://clinic/visits",
        "gs://clinic/visits/day=2024-06-01",
        "abfss://visits@clinic.dfs.core.windows.net/2024",
        "s3://clinic/visits?/sex=f/*.parquet",
        "s3://clinic/a@b:c/visits",
        "hdfs://namenode:9000/visits",
        "/data/visits@2024:06?sig=none",
    ],
)
def test_other_paths_are_kept_as_they_are(path: str) -> None:
    source = _table("sc://host:15002", path=path, format="parquet").source
    assert isinstance(source, SparkTable)
    assert source.path == path


@pytest.mark.parametrize("scheme", ["s3", "S3", "s3a", "gs", "abfss"])
def test_an_object_store_is_no_source_of_its_own(scheme: str) -> None:
    with pytest.raises(InvalidPolicy, match="read by a Spark server"):
        _table(f"{scheme}://clinic/visits.parquet")
