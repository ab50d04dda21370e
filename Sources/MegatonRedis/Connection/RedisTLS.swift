import Foundation
import NIOSSL

/// TLS of the connections of one configuration: loads the files, and words the errors of handshakes.
///
/// The files are read for each connection, so that a certificate may be renewed while a process runs.
struct RedisTLS {
    private let configuration: RedisConfiguration

    init(_ configuration: RedisConfiguration) { self.configuration = configuration }

    /// Reads the files.
    ///
    /// - Returns: nil for a configuration without TLS.
    /// - Throws: `.invalidConfiguration` with the name of the file that is missing, unreadable or unsuitable.
    func context() throws(RedisError) -> NIOSSLContext? {
        guard configuration.usesTLS else { return nil }
        try configuration.checkClientCertificate()
        var settings = TLSConfiguration.makeClientConfiguration()
        if let file = configuration.certificateAuthority {
            settings.trustRoots = .certificates(try certificates(of: file, "ca, the authorities to trust"))
        }
        if let file = configuration.clientCertificate, let keyFile = configuration.clientKey {
            let purpose = "cert, the client certificate"
            settings.certificateChain = try certificates(of: file, purpose).map { .certificate($0) }
            settings.privateKey = .privateKey(try key(of: keyFile))
        }
        do {
            return try NIOSSLContext(configuration: settings)
        } catch {
            // The key itself was read without an error.
            guard case NIOSSLError.failedToLoadPrivateKey = error, let file = configuration.clientCertificate,
                let keyFile = configuration.clientKey
            else { throw RedisError(.invalidConfiguration, "TLS for Redis cannot be set up: \(error)") }
            throw RedisError(
                .invalidConfiguration,
                "The private key in \(keyFile) does not belong to the certificate in \(file), with which this client "
                    + "should identify itself to Redis. Name the two files of one certificate; in a file of several "
                    + "certificates the client's own comes first."
            )
        }
    }

    private func certificates(of file: String, _ purpose: String) throws(RedisError) -> [NIOSSLCertificate] {
        try checkReadable(file, purpose)
        // A file without any certificate is an error of NIOSSL in some versions, and an empty list in others.
        let certificates = (try? NIOSSLCertificate.fromPEMFile(file)) ?? []
        if !certificates.isEmpty { return certificates }
        throw RedisError(
            .invalidConfiguration,
            "The file \(file) for TLS to Redis (\(purpose)) has no valid certificate in PEM format."
        )
    }

    private func key(of file: String) throws(RedisError) -> NIOSSLPrivateKey {
        try checkReadable(file, "key, the private key of the client certificate")
        if let key = try? NIOSSLPrivateKey(file: file, format: .pem) { return key }
        throw RedisError(
            .invalidConfiguration,
            "The file \(file) for TLS to Redis has no private key in PEM format, or the key is encrypted, which is not "
                + "supported: restrict the permissions of the file instead."
        )
    }

    private func checkReadable(_ file: String, _ purpose: String) throws(RedisError) {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        var code = errno
        if descriptor >= 0 {
            var state = stat()
            code = fstat(descriptor, &state) != 0 ? errno : state.st_mode & S_IFMT == S_IFDIR ? EISDIR : 0
            close(descriptor)
            if code == 0 { return }
        }
        throw RedisError(
            .invalidConfiguration,
            "The file \(file) for TLS to Redis (\(purpose)) cannot be read: \(String(cString: strerror(code)))."
        )
    }

    // MARK: - Handshakes

    /// Classifies an error of a connection: `.tls` if it comes from a handshake that was refused by one of the two, and
    /// `.connectionClosed` otherwise.
    ///
    /// With TLS 1.3 a server refuses a client's certificate after the handshake has ended for the client, so that its
    /// alert arrives instead of the first reply.
    static func error(of error: any Error) -> RedisError {
        switch error {
        // The connection ended during or after the handshake, without a word.
        case NIOSSLError.uncleanShutdown, NIOSSLError.handshakeFailed(.sslError([.eofDuringHandshake])),
            NIOSSLError.handshakeFailed(.zeroReturn), NIOSSLError.handshakeFailed(.syscallError):
            RedisError(.connectionClosed, "The connection to Redis failed: \(error)")
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError:
            RedisError(.tls, "TLS with Redis failed: \(error)")
        default:
            RedisError(.connectionClosed, "The connection to Redis failed: \(error)")
        }
    }

    /// Adds the likely cause and the remedy to an error of a connection that was never usable.
    ///
    /// - Parameter place: the server, for the message.
    func explained(_ error: RedisError, place: String) -> RedisError {
        switch error.code {
        case .tls:
            RedisError(.tls, "\(error.message) \(remedy(of: error.message, place: place))")
        case .protocolError:
            RedisError(
                .protocolError,
                "The server at \(place) does not answer like Redis. Is the port right? \(error.message)"
            )
        case .timeout where configuration.usesTLS:
            RedisError(.timeout, "\(error.message) Does \(place) speak TLS? A plain port needs redis:// in the URL.")
        case .connectionClosed where configuration.usesTLS:
            RedisError(
                .connectionClosed,
                "\(error.message) Does \(place) speak TLS? A plain port needs redis:// in the URL."
                    + " \(certificateRemedy(place))"
            )
        // A command that the user may not send has a message of its own.
        case .authentication where !error.message.contains("NOPERM"):
            RedisError(
                .authentication,
                "The Redis at \(place) refused the connection. \(error.message) Its URL needs the right user and "
                    + "password, as in redis://user:password@host; @, / and : in them are percent-encoded."
            )
        // The server may expect TLS: such a server closes a plain connection.
        case .connectionClosed:
            RedisError(
                .connectionClosed,
                "\(error.message) If \(place) expects TLS, the URL begins with rediss:// or rediss-sentinel://."
            )
        default: error
        }
    }

    /// - Parameter text: names of BoringSSL's errors and of TLS alerts.
    private func remedy(of text: String, place: String) -> String {
        func has(_ words: String...) -> Bool { words.contains { text.contains($0) } }
        if has("WRONG_VERSION_NUMBER") { return "\(place) does not speak TLS: a plain port needs redis:// in the URL." }
        if has("CERTIFICATE_VERIFY_FAILED") {
            let trusted = configuration.certificateAuthority ?? "the authorities of this system"
            return "The certificate of \(place) is not signed by \(trusted), or it has expired. Name the file of its "
                + "authority with --redis-ca FILE, or ca= in the URL."
        }
        if has("unableToValidateCertificate", "failedToValidateHostname", "Couldn't find") {
            return
                "The certificate of \(place) does not name this host. Use the name in its subjectAltName in the URL, "
                + "or add this one to the certificate."
        }
        return certificateRemedy(place)
    }

    /// A server that does not accept the client's certificate may close the connection before its alert is read.
    private func certificateRemedy(_ place: String) -> String {
        guard let file = configuration.clientCertificate else {
            return "If it asks for a client certificate (tls-auth-clients), name one with --redis-cert FILE and "
                + "--redis-key FILE, or cert= and key= in the URL."
        }
        return "If \(place) refused the client certificate in \(file): is it valid now, and signed by an authority in "
            + "the server's tls-ca-cert-file?"
    }
}
