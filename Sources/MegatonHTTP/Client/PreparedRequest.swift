internal import Crypto
internal import Foundation
internal import FoundationNetworking

/// One request of a load as it is sent: checked, by HTTP or FTP, and with the credential of its own host.
struct PreparedRequest {
    /// The request, with scheme http, https or ftp.
    var request: URLRequest
    /// Port of the FTP control connection, the only one to check: the data connection may use any port (RFC 1123
    /// section 4.1.2.6), at the same address. Nil for other schemes.
    private(set) var ftpPort: Int?
    /// Login for FTP; nil for anonymous.
    private(set) var ftpLogin: Login?
    /// Parameters that libcurl signs the request with (`CURLOPT_AWS_SIGV4`).
    var signature: Signature?
    /// Parts of the URL that is connected to.
    private(set) var parts: URLParts?
    /// Whether the host is from the configuration, not from a source: any address may be connected to.
    var isTrusted = false

    struct Login {
        let user: String
        let password: Secret
    }

    struct Signature {
        let provider: String
        let keyID: String
        let secret: Secret
    }

    /// - Throws: `.invalidURL` or `.forbidden`.
    init(_ request: URLRequest, _ configuration: DataLoader.Configuration) throws(ImageError) {
        guard let url = request.url else {
            throw ImageError(.invalidURL, "A request without a URL cannot be sent.")
        }
        self.request = request
        // Only those that are there: each removal copies the request.
        if request.credentialName != nil { self.request.credentialName = nil }
        if request.s3Listing != nil { self.request.s3Listing = nil }
        if request.s3Query != nil { self.request.s3Query = nil }
        try Self.check(request.allHTTPHeaderFields ?? [:])
        let scheme = url.scheme?.lowercased() ?? ""
        guard URLPolicy.remoteSchemes.contains(scheme) else {
            throw ImageError(.invalidURL, "\(scheme): cannot be fetched over the network (\(url.redacted)).")
        }
        guard let parts = try configuration.urlPolicy.check(url) else {
            throw ImageError(.invalidURL, "\"\(url.redacted)\" can be read in more than one way.")
        }
        self.parts = parts
        let credential = configuration.credentials.credential(for: parts, named: request.credentialName)
        if scheme == "s3" {
            let endpoint = configuration.s3
            if let query = request.s3Listing {
                let prefix = try S3Prefix(url)
                try sign("\(prefix)", at: try endpoint.url(listing: prefix, query: query), credential, endpoint)
            } else {
                let location = try S3Location(url)
                let url = try endpoint.url(of: location, query: request.s3Query)
                try sign("\(location)", at: url, credential, endpoint)
            }
        } else if scheme == "ftp" {
            try retrieve(parts, credential)
        } else {
            let fields = credential?.headerFields ?? [:]
            // Foundation would omit invalid fields silently.
            try Self.check(fields)
            // The caller's own field takes precedence.
            for (name, value) in fields
            where self.request.value(forHTTPHeaderField: name) == nil {
                self.request.setValue(value, forHTTPHeaderField: name)
            }
        }
    }

    /// - Parameter name: name of the object in messages.
    private mutating func sign(
        _ name: String,
        at url: URL,
        _ credential: Credential?,
        _ endpoint: S3Endpoint
    ) throws(ImageError) {
        request.url = url
        parts = request.url.flatMap { URLParts($0) }
        isTrusted = endpoint.url != nil
        guard let credential else { return }  // A public bucket.
        guard case .s3(let keyID, let secret, let token) = credential.method else {
            throw ImageError(
                .forbidden,
                "The credential for \(name) is not for s3. Use one with a key id and a secret."
            )
        }
        // S3 requires this field. libcurl (7.88) does not add it, but signs it if it is present.
        let checksum = request.httpBody.map { SHA256.hash(data: $0).hexDigits } ?? "UNSIGNED-PAYLOAD"
        request.setValue(checksum, forHTTPHeaderField: "x-amz-content-sha256")
        if let token { request.setValue(token.value, forHTTPHeaderField: "x-amz-security-token") }
        signature = Signature(provider: "aws:amz:\(endpoint.region):s3", keyID: keyID, secret: secret)
    }

    private mutating func retrieve(_ parts: URLParts, _ credential: Credential?) throws(ImageError) {
        let path = request.url?.path(percentEncoded: true) ?? ""
        // A semicolon would introduce the transfer type (RFC 1738 section 3.2.2).
        guard !path.isEmpty, !path.hasSuffix("/"), !path.contains(";") else {
            throw ImageError(.invalidURL, "\(request.url?.redacted ?? "") names no file.")
        }
        guard (request.httpMethod ?? "GET") == "GET" else {
            throw ImageError(
                .invalidURL,
                "The method \(request.httpMethod ?? "") cannot be used for ftp; only GET can."
            )
        }
        ftpPort = parts.port
        switch credential?.method {
        case nil: break
        case .basic(let user, let password): ftpLogin = Login(user: user, password: password)
        default:
            throw ImageError(.forbidden, "The credential for \(parts.host) is not for ftp. Use a user and a password.")
        }
    }

    private static func check(_ fields: [String: String]) throws(ImageError) {
        for (name, value) in fields where !isField(name, value) {
            throw ImageError(.forbidden, "The header field \(name.debugDescription) cannot be sent.")
        }
    }

    /// RFC 9110 sections 5.1 and 5.5: a line break would start another field.
    private static func isField(_ name: String, _ value: String) -> Bool {
        let isName = !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }
        return isName && !value.utf8.contains { ($0 < 0x20 && $0 != 0x09) || $0 == 0x7F }
    }
}
