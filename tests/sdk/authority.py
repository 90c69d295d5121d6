# SPDX-License-Identifier: Apache-2.0
"""A certificate authority for one test run, and a server's certificate by it.

For:       Authority(directory): ca, certificate and key as paths of PEM files, for localhost.
Used by:   run.py.
Knows not: who serves, who trusts.
"""

import pathlib
import subprocess

EXTENSIONS = """\
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1
"""
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Authority:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.ca, self.certificate = self.directory / "ca.pem", self.directory / "server.pem"
        self.key = self.directory / "server.key"
        (self.directory / "server.ext").write_text(EXTENSIONS)
        self._openssl("req", "-x509", *CURVE, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
                      "-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign")
        self._openssl("req", *CURVE, "-keyout", "server.key", "-out", "server.csr",
                      "-subj", "/CN=localhost")
        self._openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                      "-CAcreateserial", "-out", "server.pem", "-days", "2",
                      "-extfile", "server.ext")

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)
