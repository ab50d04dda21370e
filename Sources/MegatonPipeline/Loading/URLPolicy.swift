internal import Foundation

/// Which URLs may be fetched at all, before anything is resolved or opened.
public struct URLPolicy: Sendable, Equatable {
    /// Schemes in lower case.
    public var schemes: Set<String>

    /// - Parameter schemes: `http`, `https`, `file` and `data` unless told otherwise; files still need an allowed root.
    public init(schemes: Set<String> = ["http", "https", "file", "data"]) { self.schemes = schemes }

    /// - Throws: `.invalidURL` or `.forbidden`.
    func check(_ url: URL) throws(ImagePipeline.Error) {
        guard let scheme = url.scheme?.lowercased() else {
            throw ImagePipeline.Error(.invalidURL, "\"\(url.absoluteString)\" has no scheme; a source is a URL.")
        }
        guard schemes.contains(scheme) else {
            throw ImagePipeline.Error(
                .forbidden,
                "\(scheme): is not among the schemes allowed (\(schemes.sorted().joined(separator: ", ")))."
            )
        }
        guard scheme == "http" || scheme == "https" else { return }
        guard let host = url.host(), !host.isEmpty else {
            throw ImagePipeline.Error(.invalidURL, "\"\(url.absoluteString)\" names no host.")
        }
        // Nobody needs an encoded character in a host's name, and libcurl and Foundation decode it differently.
        guard !host.contains("%") else {
            throw ImagePipeline.Error(.invalidURL, "The host \(host) has a percent-encoding or a zone.")
        }
        // `http://example.com@evil.test` looks like one host and is another; credentials come from elsewhere.
        guard url.user() == nil, url.password() == nil else {
            throw ImagePipeline.Error(.forbidden, "A source URL must not carry a user or a password (host \(host)).")
        }
    }
}
