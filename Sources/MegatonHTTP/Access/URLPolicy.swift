package import Foundation

/// URLs that may be fetched. Applied before anything is resolved or opened, and again for each redirect.
public struct URLPolicy: Sendable, Equatable {
    /// Allowed schemes, in lower case.
    public var schemes: Set<String>
    /// Allowed hosts, ports and paths; any if empty. Files have their own roots (``FileAccess``).
    public var sources: [SourceRule]
    /// Addresses that a URL may name in the place of a host, and that entries of caches may have come from; nil for
    /// any. The loader checks the address of each connection by itself. These checks are for caches, which may have
    /// their entries from a process with another policy. A name, other than `localhost`, is resolved for a connection
    /// only; an entry has the address of that connection, unless an earlier version stored it.
    public var addresses: AddressPolicy?

    /// - Parameters:
    ///   - schemes: `http`, `https`, `file` and `data` by default; files still need an allowed root.
    ///   - sources: all by default.
    public init(schemes: Set<String> = ["http", "https", "file", "data"], sources: [SourceRule] = []) {
        self.schemes = schemes
        self.sources = sources
    }

    /// Schemes whose URLs name a host, or a bucket in its place.
    static let remoteSchemes: Set<String> = ["http", "https", "s3", "ftp"]

    /// Names options of `megaton run` and `megaton worker`.
    private static let adviceForS3 =
        " Allow it by an S3 credential (--credentials FILE) or a store of your own (--s3-endpoint URL)."

    /// - Returns: the parts of a URL that names a host; nil for other URLs.
    /// - Throws: `.invalidURL` or `.forbidden`.
    @discardableResult
    package func check(_ url: URL) throws(ImageError) -> URLParts? {
        guard let scheme = url.scheme?.lowercased() else {
            throw ImageError(.invalidURL, "\"\(url.redacted)\" has no scheme; a source is a URL.")
        }
        guard schemes.contains(scheme) else {
            let advice = scheme == "s3" ? Self.adviceForS3 : ""
            throw ImageError(
                .forbidden,
                "\(url.redacted) cannot be fetched: \(scheme): is not among the schemes allowed ("
                    + "\(schemes.sorted().joined(separator: ", "))).\(advice)"
            )
        }
        guard Self.remoteSchemes.contains(scheme) else { return nil }
        return try checkRemote(url)
    }

    private func checkRemote(_ url: URL) throws(ImageError) -> URLParts {
        guard let host = url.host(), !host.isEmpty else {
            throw ImageError(.invalidURL, "\"\(url.redacted)\" names no host.")
        }
        // `http://example.com@evil.test` appears to name one host and names another; credentials are configured
        // elsewhere.
        guard url.user() == nil, url.password() == nil else {
            throw ImageError(.forbidden, "A source URL must not carry a user or a password (host \(host)).")
        }
        // By bytes first: Foundation's search for a text is slow.
        guard !host.utf8.contains(UInt8(ascii: "%")) || !host.contains("%25") else {
            throw ImageError(.forbidden, "A source URL must not name a network interface (host \(host)).")
        }
        guard let parts = URLParts(url), !parts.hasUser else {
            throw ImageError(.invalidURL, "\"\(url.redacted)\" can be read in more than one way.")
        }
        guard sources.isEmpty || sources.contains(where: { $0.matches(parts) }) else {
            throw ImageError(.forbidden, "\(url.redacted) is not among the sources allowed.")
        }
        if parts.scheme != "s3", let refusal = addressRefusal(parts) {
            throw ImageError(.forbidden, "\(url.redacted) is not fetched: \(refusal).")
        }
        return parts
    }

    private func addressRefusal(_ parts: URLParts) -> String? {
        guard let addresses else { return nil }
        // RFC 6761 section 6.3.
        let isLocal = parts.host == "localhost" || parts.host.hasSuffix(".localhost")
        let found = (isLocal ? ["127.0.0.1", "::1"] : [parts.host]).compactMap { IPAddress($0) }
        let port = parts.explicitPort ?? parts.usualPort
        let refusals = found.compactMap { addresses.validationError(address: $0, port: port) }
        return refusals.count == found.count ? refusals.first : nil
    }
}

/// A configuration that can be less safe than by default, and reports that: a pipeline logs it when it is created.
package protocol SecurityRelaxationReporting: Sendable {
    /// Descriptions for people, without secrets; empty by default.
    var securityRelaxations: [String] { get }
}
