import Foundation

/// A certificate authority of one test, made with openssl, and certificates that it has signed.
///
/// The files are in the test's directory and are valid for two days.
package struct TestCertificates: Sendable {
    /// openssl failed; its messages.
    package struct Failed: Error {
        package let errors: String
    }

    /// The PEM files of one certificate.
    package struct Pair: Sendable {
        package let certificate: String
        package let key: String
    }

    /// Certificate of the authority.
    package let authority: String
    private let pair: Pair
    private let directory: TestDirectory

    /// Makes an authority.
    ///
    /// - Parameter name: of its files; two authorities of a test need different ones.
    package static func make(in directory: TestDirectory, name: String = "ca") async throws -> TestCertificates {
        let pair = Pair(certificate: "\(directory.path)/\(name).pem", key: "\(directory.path)/\(name).key")
        try await openssl([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj",
            "/CN=\(name)", "-keyout", pair.key, "-out", pair.certificate,
        ])
        return TestCertificates(authority: pair.certificate, pair: pair, directory: directory)
    }

    /// Makes a certificate for a server at `localhost` and 127.0.0.1, or for a client.
    package func sign(_ name: String) async throws -> Pair {
        let made = Pair(certificate: "\(directory.path)/\(name).pem", key: "\(directory.path)/\(name).key")
        let (request, extensions) = ("\(directory.path)/\(name).csr", "\(directory.path)/\(name).ext")
        try await Self.openssl([
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=\(name)",
            "-keyout", made.key, "-out", request,
        ])
        try directory.write(Data("subjectAltName=DNS:localhost,IP:127.0.0.1\n".utf8), to: "\(name).ext")
        try await Self.openssl([
            "x509", "-req", "-in", request, "-CA", pair.certificate, "-CAkey", pair.key, "-CAcreateserial", "-days",
            "2",
            "-extfile", extensions, "-out", made.certificate,
        ])
        return made
    }

    private static func openssl(_ arguments: [String]) async throws {
        let ending = try await ProgramUnderTest(program: "/usr/bin/openssl", arguments: arguments).ending()
        if ending.code != 0 { throw Failed(errors: ending.errors) }
    }
}
