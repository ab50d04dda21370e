internal import Foundation

/// Reasons in words for the errors of an S3 store.
enum S3Problem {
    /// Whether a request was signed, and why not.
    enum Signing {
        case signed
        case noCredentials
        case otherCredentials

        /// - Parameter name: name of the credential; nil for the one that matches the URL.
        init(_ credentials: Credentials, for url: URL, named name: String? = nil) {
            if credentials.credentials.isEmpty {
                self = .noCredentials
            } else {
                let credential = URLParts(url).flatMap { credentials.credential(for: $0, named: name) }
                self = credential == nil ? .otherCredentials : .signed
            }
        }

        /// A sentence for the error of a request that was denied; nil if it was signed.
        var remark: String? {
            switch self {
            case .signed: nil
            case .noCredentials: "The request was not signed, as no credential was given (--credentials)."
            case .otherCredentials: "The request was not signed, as --credentials has none for the bucket."
            }
        }

        /// The reason and the remedy if access is denied.
        func denial(bucket: String, permission: String) -> String {
            switch self {
            case .signed:
                "access is denied. The credential of the bucket in the --credentials file needs \(permission)"
            case .noCredentials:
                "access is denied: no credential was given (--credentials), so that the request was not signed. Give one "
                    + "of the bucket, which needs \(permission)"
            case .otherCredentials:
                "access is denied: no credential of the --credentials file is for s3://\(bucket), so that the request "
                    + "was not signed. Add one, which needs \(permission)"
            }
        }
    }

    private static let store = "the store "

    /// The reason and the remedy if there is no connection, without a period at the end.
    static func unreachable(_ endpoint: S3Endpoint, _ reason: String) -> String {
        "\(store)\(endpoint.name) cannot be reached: \(reason). Check the network, and the address of --s3-endpoint"
    }

    /// The code in the store's answer, such as `NoSuchBucket`.
    static func code(of error: ImageError) -> String? { error.excerpt.flatMap(code(in:)) }

    /// The part of an answer that names the error, as the excerpt of an error: the first characters of XML do not.
    ///
    /// - Returns: nil if the answer is not an error of S3.
    static func excerpt(_ answer: Data) -> String? {
        code(in: String(decoding: answer, as: UTF8.self)).map { "<Code>\($0)</Code>" }
    }

    private static func code(in text: String) -> String? {
        text.firstMatch(of: /<Code>([A-Za-z0-9]+)<\/Code>/).map { String($0.1) }
    }

    /// The reason and the remedy, without a period at the end.
    ///
    /// - Parameters:
    ///   - bucket: the bucket that was used.
    ///   - permission: the permission that the credential needs.
    ///   - signing: whether the request was signed.
    static func reason(of error: ImageError, bucket: String, permission: String, signing: Signing) -> String {
        let code = code(of: error)
        switch (code, error.code) {
        case ("NoSuchBucket", _), (nil, .notFound):
            return "there is no bucket \(bucket). Create it, or check its name and the store of --s3-endpoint"
        case ("InvalidAccessKeyId", _), ("SignatureDoesNotMatch", _):
            return "the store does not accept the key of the credential. Check id and secret in the --credentials file"
        case ("ExpiredToken", _), ("InvalidToken", _):
            return "the session token of the credential is not valid any more. Renew it in the --credentials file"
        case ("RequestTimeTooSkewed", _):
            return "the clock of this machine differs from that of the store. Synchronize it"
        case ("AccessDenied", _), ("AllAccessDisabled", _), (nil, .accessDenied):
            return signing.denial(bucket: bucket, permission: permission)
        case (nil, .unreachable):
            // The object is named already.
            return error.message.range(of: store).map { String(error.message[$0.lowerBound...]) } ?? error.message
        case (nil, .tls):
            return
                "there is no TLS connection to the store: \(error.message) A certificate of a private authority is given "
                + "with --ca-file"
        case (nil, .connectTimedOut), (nil, .tooSlow), (nil, .timedOut):
            return "the store does not answer in time. Check the network, and the address of --s3-endpoint"
        case ("AuthorizationHeaderMalformed", _), ("PermanentRedirect", _), ("TemporaryRedirect", _):
            return otherRegion
        // An answer to HEAD has no body.
        case (nil, _) where [301, 307, 308].contains(error.status): return otherRegion
        default: return code.map { "\($0): \(error.message)" } ?? error.message
        }
    }

    /// The reason and the remedy if the store itself refuses to send an object; nil if the object is missing, or for
    /// another error.
    static func refusal(_ error: ImageError, _ url: URL, _ signing: Signing) -> String? {
        guard let bucket = url.host(percentEncoded: false), error.status != nil,
            isFinal(error) || code(of: error) == "AccessDenied"
        else { return nil }
        if code(of: error) == "NoSuchBucket" {
            return "there is no bucket \(bucket). Check its name, and the store of --s3-endpoint"
        }
        // Without the second one, AWS denies an object that is missing.
        return reason(of: error, bucket: bucket, permission: "s3:GetObject and s3:ListBucket", signing: signing)
    }

    /// Whether the failure is that of each request for the bucket.
    static func isFinal(_ error: ImageError) -> Bool {
        switch code(of: error) {
        case "NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
            "RequestTimeTooSkewed", "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect":
            true
        case nil:
            [.unreachable, .tls, .connectTimedOut, .tooSlow, .timedOut].contains(error.code)
                || [301, 307, 308].contains(error.status)
        default: false
        }
    }

    private static let otherRegion = "the bucket is in another region. Give it with --s3-region"
}
