public import Foundation

/// The HTTP server that loaders are tried on. It is the caller's: any server that answers each `Resource` as told.
public struct ConformanceOrigin: Sendable {
    /// Resources are asked for beneath it.
    public var baseURL: URL
    /// Where nobody answers.
    public var unreachableURL: URL

    /// - Parameters:
    ///   - baseURL: `http:` or `https:`; the loader must be allowed to ask it.
    ///   - unreachableURL: port 1 of the loopback address unless told otherwise.
    public init(
        baseURL: URL,
        unreachableURL: URL = URL(string: "http://127.0.0.1:1/") ?? URL(fileURLWithPath: "/")
    ) {
        self.baseURL = baseURL
        self.unreachableURL = unreachableURL
    }

    func url(_ resource: Resource) -> URL { baseURL.appending(path: resource.path) }
}
