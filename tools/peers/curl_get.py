"""Fetches paths from an HTTP/3 server with libcurl and ngtcp2 (of the Python package curl_cffi), one after the other on one handle.

Usage: curl_get.py https://127.0.0.1:PORT/ CERTIFICATE PATH…
Prints an object in JSON per response: path, status, bytes, sha256, protocol. There is no fallback to an older HTTP.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import hashlib
import io
import json
import sys

from curl_cffi import Curl, CurlHttpVersion, CurlInfo, CurlOpt

LIMIT_S = 60
PROTOCOLS = {int(CurlHttpVersion.V1_1): "http/1.1", int(CurlHttpVersion.V2_0): "h2", int(CurlHttpVersion.V3): "h3"}


def main(base, certificate, *paths):
    curl = Curl()
    curl.setopt(CurlOpt.HTTP_VERSION, CurlHttpVersion.V3ONLY)
    curl.setopt(CurlOpt.CAINFO, certificate)
    curl.setopt(CurlOpt.TIMEOUT, LIMIT_S)
    for path in paths:
        content = io.BytesIO()
        curl.setopt(CurlOpt.URL, base.rstrip("/") + path)
        curl.setopt(CurlOpt.WRITEDATA, content)
        curl.perform()
        body = content.getvalue()
        version = curl.getinfo(CurlInfo.HTTP_VERSION)
        print(json.dumps({"path": path, "status": curl.getinfo(CurlInfo.RESPONSE_CODE), "bytes": len(body),
                          "sha256": hashlib.sha256(body).hexdigest(), "protocol": PROTOCOLS.get(version, str(version))}))
    curl.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
