extension RedisConfiguration {
    /// Whether an option of a URL names a file of TLS.
    static func isTLSOption(_ name: String) -> Bool { ["ca", "cert", "key"].contains(name) }

    /// Stores an option of a URL that names a file of TLS, and ignores others.
    mutating func setTLSOption(_ name: String, _ value: String?) {
        switch name {
        case "ca": certificateAuthority = value
        case "cert": clientCertificate = value
        case "key": clientKey = value
        default: break
        }
    }

    /// Adds files to a configuration that uses TLS and whose URL names none.
    ///
    /// - Parameters:
    ///   - authority: certificates to trust, as ``certificateAuthority``.
    ///   - certificate: as ``clientCertificate``.
    ///   - key: as ``clientKey``. A certificate and a key are taken together or not at all.
    package mutating func addTLSFiles(authority: String?, certificate: String?, key: String?) throws(RedisError) {
        guard usesTLS else { return }
        if certificateAuthority == nil { certificateAuthority = authority }
        if clientCertificate == nil, clientKey == nil { (clientCertificate, clientKey) = (certificate, key) }
        try checkClientCertificate()
    }

    /// - Throws: `.invalidConfiguration` if there is a certificate without a key, or a key without a certificate.
    func checkClientCertificate() throws(RedisError) {
        if (clientCertificate == nil) == (clientKey == nil) { return }
        let (given, missing) = clientKey == nil ? ("certificate", "key") : ("key", "certificate")
        throw RedisError(
            .invalidConfiguration,
            "Redis has a client \(given) for TLS without its \(missing): give both, as cert= and key= in the URL or as "
                + "--redis-cert and --redis-key. One file may hold both."
        )
    }
}
