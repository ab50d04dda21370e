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

extension ConformanceOrigin {
    /// A resource of the server, with the response that it must send.
    public enum Resource: Sendable, Hashable {
        /// `/bytes/N`: 200, `body` with its Content-Length.
        case bytes(Int)
        /// `/chunks/N`: 200, `piece` N times, a few milliseconds apart, without a Content-Length.
        case chunks(Int)
        /// `/status/N`: status N, and a short text.
        case status(Int)
        /// `/cut/N`: 200 and `body`, with twice its length announced; then the server closes the connection.
        case cut(Int)
        /// `/hang/N`: 200 and `body`, with twice its length announced; then nothing until the client closes the
        /// connection.
        case hang(Int)
        /// `/conditional`: 304 without a body if If-None-Match is `validator`, else 200 and `body`.
        case conditional

        /// Parses a request's path; components before the last two are ignored.
        ///
        /// - Returns: nil for the path of no resource, for which the server must respond with 404.
        public init?(path: String) {
            let components = path.split(separator: "/").suffix(2)
            if components.last == "conditional" {
                self = .conditional
                return
            }
            guard components.count == 2, let name = components.first, let number = components.last.flatMap({ Int($0) })
            else { return nil }
            switch name {
            case "bytes": self = .bytes(number)
            case "chunks": self = .chunks(number)
            case "status": self = .status(number)
            case "cut": self = .cut(number)
            case "hang": self = .hang(number)
            default: return nil
            }
        }

        /// The path relative to the base URL.
        public var path: String {
            switch self {
            case .bytes(let count): "bytes/\(count)"
            case .chunks(let count): "chunks/\(count)"
            case .status(let status): "status/\(status)"
            case .cut(let count): "cut/\(count)"
            case .hang(let count): "hang/\(count)"
            case .conditional: "conditional"
            }
        }

        /// The status of the response; for `.conditional` that to a request without the validator.
        public var status: Int {
            if case .status(let status) = self { status } else { 200 }
        }

        /// The bytes of the body. Bodies of different lengths also differ in their bytes.
        public var body: Data {
            switch self {
            case .bytes(let count), .cut(let count), .hang(let count): Self.pattern(count)
            case .chunks(let count): Data(repeatElement(Self.piece, count: count).joined())
            case .status(let status): Data("status \(status)\n".utf8)
            case .conditional: Self.pattern(100)
            }
        }

        /// The Content-Length to announce; nil for none.
        public var announcedLength: Int? {
            switch self {
            case .bytes(let count): count
            case .chunks: nil
            case .cut(let count), .hang(let count): 2 * count
            case .status, .conditional: body.count
            }
        }

        /// The bytes that `.chunks` sends repeatedly.
        public static let piece = pattern(1000)
        /// The entity tag of `.conditional`, as it stands in the header field.
        public static let validator = "\"conformance\""

        /// Bytes without a period that a loader's buffers could have, so that reordered chunks are detected.
        private static func pattern(_ count: Int) -> Data {
            var data = Data(count: count)
            data.withUnsafeMutableBytes { bytes in
                var state = UInt32(truncatingIfNeeded: count)
                for index in bytes.indices {
                    // The linear congruential generator of Numerical Recipes.
                    state = state &* 1_664_525 &+ 1_013_904_223
                    bytes[index] = UInt8(truncatingIfNeeded: state >> 24)
                }
            }
            return data
        }
    }
}
