/// What went wrong between us and Redis: a code to branch on, and a sentence for people.
public struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The class of a failure. A struct, so that a new one breaks nobody's `switch`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        public let description: String

        private init(_ description: String) { self.description = description }

        /// The URL, or an option, does not say what it should.
        public static let invalidConfiguration = Code("invalid_configuration")
        /// Nobody answers at the address, or the socket is not there.
        public static let unreachable = Code("unreachable")
        /// The connection ended while a reply was due: whether the command was executed is not known.
        public static let connectionClosed = Code("connection_closed")
        /// No reply within the deadline; the connection has been closed: whether the command was executed is not known.
        public static let timeout = Code("timeout")
        /// Bytes that are not RESP2, or a reply above the limits.
        public static let protocolError = Code("protocol_error")
        /// NOAUTH, WRONGPASS or NOPERM, or AUTH refused: never tried again.
        public static let authentication = Code("authentication")
        /// OOM: `maxmemory` is reached and nothing may be evicted.
        public static let outOfMemory = Code("out_of_memory")
        /// LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: wait and try again.
        public static let busy = Code("busy")
        /// READONLY, MASTERDOWN, UNBLOCKED, NOREPLICAS or MOVED, or a ROLE that is not master: this server does not take
        /// the write (any more).
        public static let notWritable = Code("not_writable")
        /// NOSCRIPT.
        public static let unknownScript = Code("unknown_script")
        /// Any other error reply.
        public static let server = Code("server")
        /// The client was closed.
        public static let closed = Code("closed")
        /// A reply of another shape than the command's contract says.
        public static let unexpectedReply = Code("unexpected_reply")
    }

    public let code: Code
    public let message: String

    /// An error with a sentence that says what happened, where, and what to do.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { "\(message) (\(code))" }

    /// Sorts an error reply by its first word.
    /// https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
    public init(reply: String) {
        let prefix = reply.prefix { $0 != " " }
        let code: Code =
            switch prefix {
            case "NOAUTH", "WRONGPASS", "NOPERM": .authentication
            case "OOM": .outOfMemory
            case "LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN": .busy
            // MASTERDOWN: a replica without its master. UNBLOCKED: a blocking command that ended without effect because
            // its server became a replica.
            case "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "MOVED", "ASK", "MISCONF": .notWritable
            case "NOSCRIPT": .unknownScript
            // Since Redis 7 an error inside a script keeps its own code, but older ones wrap it.
            case "ERR" where reply.contains("-OOM "): .outOfMemory
            case "ERR" where reply.contains("-READONLY "): .notWritable
            default: .server
            }
        self.init(code, "Redis answered: \(reply)")
    }

    /// Whether the connection is of no more use: the place to re-resolve and connect anew.
    var endsConnection: Bool {
        switch code {
        case .notWritable, .connectionClosed, .timeout, .protocolError: true
        default: false
        }
    }

    /// Whether the same command may succeed later without anybody's doing.
    public var isTransient: Bool {
        switch code {
        case .unreachable, .connectionClosed, .timeout, .busy, .notWritable, .outOfMemory: true
        default: false
        }
    }
}
