public import Foundation

extension ConformanceOrigin {
    /// What the server is asked for, and how it answers.
    public enum Resource: Sendable, Hashable {
        /// `/bytes/N`: 200, `body` with its Content-Length.
        case bytes(Int)
        /// `/chunks/N`: 200, `piece` N times, a few milliseconds apart; the length is not announced.
        case chunks(Int)
        /// `/status/N`: that status, and a short text.
        case status(Int)
        /// `/cut/N`: 200, `body`, of which twice as much is announced; then the connection is closed.
        case cut(Int)
        /// `/hang/N`: 200, `body`, of which twice as much is announced; then nothing while the client is there.
        case hang(Int)
        /// `/conditional`: 304 and no body where If-None-Match is `validator`, else 200 and `body`.
        case conditional

        /// Reads a request's path; what is before the last two components does not matter.
        ///
        /// - Returns: nil for a path of nothing here: 404 is the answer.
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

        /// Beneath the base URL.
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

        /// The status of the answer; of `.conditional` for a request without the validator.
        public var status: Int {
            if case .status(let status) = self { status } else { 200 }
        }

        /// The bytes that are sent. Bodies of different lengths differ in their bytes as well.
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

        /// What `.chunks` sends again and again.
        public static let piece = pattern(1000)
        /// Of `.conditional`, as it stands in the header field.
        public static let validator = "\"conformance\""

        /// Without a period that a loader's buffers could have, so that chunks in the wrong order are seen.
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
