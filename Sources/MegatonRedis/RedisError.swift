/// An error of a Redis connection or command: a code to branch on, and a message for people.
package struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The category of an error. A struct, so that adding one breaks no `switch`.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        package let description: String

        private init(_ description: String) { self.description = description }

        /// The URL or an option is invalid.
        package static let invalidConfiguration = Code("invalid_configuration")
        /// No server answers at the address, or the socket does not exist.
        package static let unreachable = Code("unreachable")
        /// The connection closed before the reply: it is unknown whether the command was executed.
        package static let connectionClosed = Code("connection_closed")
        /// No reply within the deadline. The connection was closed, and it is unknown whether the command was executed.
        package static let timeout = Code("timeout")
        /// The TLS handshake failed: a certificate is not trusted, does not fit or is missing. Never retried, because
        /// only the operator can change it.
        package static let tls = Code("tls")
        /// Bytes that are not RESP2, or a reply above the limits.
        package static let protocolError = Code("protocol_error")
        /// NOAUTH, WRONGPASS or NOPERM, or AUTH refused: never retried.
        package static let authentication = Code("authentication")
        /// OOM: `maxmemory` is reached and nothing may be evicted.
        package static let outOfMemory = Code("out_of_memory")
        /// LOADING, BUSY, TRYAGAIN or CLUSTERDOWN: temporary, retry later.
        package static let busy = Code("busy")
        /// READONLY, MASTERDOWN, UNBLOCKED, NOREPLICAS, MOVED, ASK or MISCONF, or a ROLE other than master: this server
        /// does not accept the write, or no longer does.
        package static let notWritable = Code("not_writable")
        /// The keys of one call are in different slots of a cluster, or Redis answered CROSSSLOT.
        package static let crossSlot = Code("cross_slot")
        /// NOSCRIPT: the server does not know the digest of a script.
        package static let unknownScript = Code("unknown_script")
        /// BATCHEXISTS, of our script `submit`: another submitter has a batch of this name.
        package static let batchExists = Code("batch_exists")
        /// BATCHBEHIND, of our script `submit`: Redis no longer has jobs that it had acknowledged.
        package static let batchBehind = Code("batch_behind")
        /// BATCHCLOSED, of our scripts `submit` and `pushJob`: another process has closed the batch, or it has ended.
        package static let batchClosed = Code("batch_closed")
        /// Redis has lost jobs that it had acknowledged, and their submitter cannot push them again.
        package static let jobsLost = Code("jobs_lost")
        /// NOBATCH, of our scripts `cancelBatch` and `closeBatch`: there is no batch of this name.
        package static let noBatch = Code("no_batch")
        /// OTHEROWNER, of our script `pushJob`: the batch belongs to another client.
        package static let otherOwner = Code("other_owner")
        /// OTHERREADER, of our script `results`: another reader has received outcomes that this one has not.
        package static let otherReader = Code("other_reader")
        /// The queue is used by processes or jobs of a protocol that this program does not speak.
        package static let incompatibleVersion = Code("incompatible_version")
        /// The servers are not those of the queue's shards, or its number of shards has changed.
        package static let shardMismatch = Code("shard_mismatch")
        /// Any other error reply.
        package static let server = Code("server")
        /// The client, or the submitter of a batch, was closed.
        package static let closed = Code("closed")
        /// A reply whose shape differs from the command's contract.
        package static let unexpectedReply = Code("unexpected_reply")
    }

    package let code: Code
    package let message: String

    /// - Parameter message: a sentence that says what happened, where, and what to do.
    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { "\(message) (\(code))" }

    /// Classifies an error reply by its first word.
    /// https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
    package init(reply: String) {
        let prefix = reply.prefix { $0 != " " }
        // The second for commands, keys and channels of a script.
        let isPermission = prefix == "NOPERM" || reply.hasPrefix("ERR The user executing the script can't ")
        let code: Code =
            switch prefix {
            case "NOAUTH", "WRONGPASS", "NOPERM": .authentication
            case "OOM": .outOfMemory
            case "LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN": .busy
            // MASTERDOWN: a replica without its master. UNBLOCKED: a blocking command that ended without effect because
            // its server became a replica.
            case "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "MOVED", "ASK", "MISCONF": .notWritable
            case "NOSCRIPT": .unknownScript
            case "CROSSSLOT": .crossSlot
            case "BATCHEXISTS": .batchExists
            case "BATCHBEHIND": .batchBehind
            case "BATCHCLOSED": .batchClosed
            case "NOBATCH": .noBatch
            case "OTHEROWNER": .otherOwner
            case "OTHERREADER": .otherReader
            // Since Redis 7 an error inside a script keeps its own code; older versions wrap it.
            case "ERR" where reply.contains("-OOM "): .outOfMemory
            case "ERR" where reply.contains("-READONLY "): .notWritable
            case "ERR" where isPermission: .authentication
            default: .server
            }
        self.init(code, "Redis answered: \(reply)" + (isPermission ? Self.permissionHint : ""))
    }

    private static let permissionHint =
        " (docs/credentials.md has the commands, keys and channels that a user of Megaton needs)"

    /// Whether this user may not run the command (NOPERM), or the server does not have it: managed servers rename or
    /// remove some. A refused key or channel does not count.
    package var isCommandRefused: Bool {
        switch code {
        case .authentication: message.contains("NOPERM") && message.contains("' command")
        case .server: message.contains("ERR unknown command") || message.contains("ERR unknown subcommand")
        default: false
        }
    }

    /// Whether a key has another type than the command needs (WRONGTYPE): another program has written it.
    package var isWrongType: Bool { code == .server && message.contains("WRONGTYPE ") }

    /// Whether the connection is unusable, so that the client must resolve the address and connect again.
    var endsConnection: Bool {
        switch code {
        case .notWritable, .connectionClosed, .timeout, .protocolError, .tls: true
        default: false
        }
    }

    /// Whether a scan that this error has ended may begin again at once: its server is being replaced, or has been.
    package var endsScan: Bool { [.busy, .connectionClosed, .notWritable].contains(code) }

    /// Whether the same command may succeed later without intervention.
    package var isTransient: Bool {
        switch code {
        case .unreachable, .connectionClosed, .timeout, .busy, .notWritable, .outOfMemory: true
        default: false
        }
    }
}
