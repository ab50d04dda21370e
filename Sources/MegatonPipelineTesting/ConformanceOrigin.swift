public import Foundation

/// The HTTP server against which loaders are checked. The caller provides it: any server that serves each `Resource` as
/// documented.
public struct ConformanceOrigin: Sendable {
    /// The base URL of all resources.
    public var baseURL: URL
    /// A URL at which no server answers.
    public var unreachableURL: URL

    /// - Parameters:
    ///   - baseURL: `http:` or `https:`; the loader must be allowed to request it.
    ///   - unreachableURL: port 1 of the loopback address by default.
    public init(
        baseURL: URL,
        unreachableURL: URL = URL(string: "http://127.0.0.1:1/") ?? URL(fileURLWithPath: "/")
    ) {
        self.baseURL = baseURL
        self.unreachableURL = unreachableURL
    }

    func url(_ resource: Resource) -> URL { baseURL.appending(path: resource.path) }
}
