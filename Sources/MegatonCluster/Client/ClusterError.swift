internal import MegatonRedis

/// An error of a cluster, not of a single job: a code to branch on, and a message for people.
public struct ClusterError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The category of an error. A struct, so that adding one breaks no `switch`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        public let description: String

        private init(_ description: String) { self.description = description }

        /// A URL, a name or a number is invalid, this Redis must not hold jobs, as it may evict them, or the servers
        /// are not those of the queue's shards.
        public static let invalidConfiguration = Code("invalid_configuration")
        /// Redis is unreachable, busy or full for now; the same call may succeed later.
        public static let redisUnavailable = Code("redis_unavailable")
        /// Redis refuses the client, for example its password, or the client was closed.
        public static let redis = Code("redis")
        /// A batch of this name was submitted before, by another client or by an earlier call of this one.
        public static let batchExists = Code("batch_exists")
        /// Another process has closed the batch while its jobs were submitted: it takes no more.
        public static let batchClosed = Code("batch_closed")
        /// There is no batch of this name, or no longer.
        public static let unknownBatch = Code("unknown_batch")
        /// The batch keeps no outcomes.
        public static let noOutcomes = Code("no_outcomes")
        /// Another iteration, or another process, has read outcomes that this one had not read yet.
        public static let otherReader = Code("other_reader")
        /// All jobs of the batch have ended, but it is still open: another submitter died, or never closes it.
        public static let notClosed = Code("not_closed")
        /// No worker is running.
        public static let noWorker = Code("no_worker")
        /// Redis has lost jobs that it had acknowledged, for example in a failover.
        public static let jobsLost = Code("jobs_lost")
        /// More outcomes came than Redis keeps without a reader.
        public static let outcomesLost = Code("outcomes_lost")
        /// The queue is used by processes or jobs of a version with which this one cannot work.
        public static let incompatibleVersion = Code("incompatible_version")
        /// An outcome of a later version.
        public static let unreadableOutcome = Code("unreadable_outcome")
    }

    /// The category.
    public let code: Code
    /// The event and the remedy, in a sentence for people.
    public let message: String

    public var description: String { "\(message) (\(code))" }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Throws `.invalidConfiguration` if there is an error.
    static func check(_ validationError: String?) throws(ClusterError) {
        if let validationError { throw ClusterError(.invalidConfiguration, validationError) }
    }

    /// Reads the URL of a Redis server.
    static func configuration(_ url: String) throws(ClusterError) -> RedisConfiguration {
        do {
            return try RedisConfiguration(url: url)
        } catch {
            throw ClusterError(error)
        }
    }

    /// The URLs in a text, which has several for a queue on several Redis.
    static func urls(_ text: String) -> [String] {
        let urls = text.split(whereSeparator: \.isWhitespace).map(String.init)
        // An empty text is the error of the URL.
        return urls.isEmpty ? [text] : urls
    }

    /// Reads the URLs of the servers of a queue: at least one.
    static func servers(_ text: String) throws(ClusterError) -> [RedisConfiguration] {
        var servers: [RedisConfiguration] = []
        for url in urls(text) { servers.append(try configuration(url)) }
        do {
            try QueueAddress.check(servers)
        } catch {
            throw ClusterError(error)
        }
        return servers
    }

    /// The keys of a queue.
    static func keys(_ queue: String) throws(ClusterError) -> QueueKeys {
        guard Job.isName(queue) else {
            throw ClusterError(.invalidConfiguration, "The queue's name must have \(Job.nameRule).")
        }
        return QueueKeys(queue: queue)
    }

    init(_ error: RedisError) {
        let code: Code =
            switch error.code {
            case .batchExists: .batchExists
            case .batchClosed: .batchClosed
            case .noBatch: .unknownBatch
            case .jobsLost, .batchBehind: .jobsLost
            case .otherReader: .otherReader
            case .invalidConfiguration, .shardMismatch: .invalidConfiguration
            case .incompatibleVersion: .incompatibleVersion
            default: error.isTransient ? .redisUnavailable : .redis
            }
        self.init(code, error.message)
    }
}
