/// The status of a queue and the servers of its cache as one JSON object, as `megaton status --json` prints it.
package struct ClusterReport: Encodable {
    private let status: ClusterStatus
    private let caches: [Inspector.CacheServer]
    private let ready: ReadyJobs?

    /// The jobs of one priority that can be claimed.
    private struct Priority: Encodable {
        let jobs: Int
        /// Seconds since the oldest of them could first be claimed; nil if that is not known.
        let oldest: Double?

        private enum CodingKeys: String, CodingKey {
            case jobs
            case oldest = "oldest_seconds"
        }
    }

    private enum CodingKeys: String, CodingKey {
        case caches
        case ready = "ready_by_priority"
    }

    /// - Parameter ready: the numbers of jobs by priority; nil to leave them out.
    package init(status: ClusterStatus, caches: [Inspector.CacheServer], ready: ReadyJobs? = nil) {
        self.status = status
        self.caches = caches
        self.ready = ready
    }

    package func encode(to encoder: any Encoder) throws {
        try status.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(caches, forKey: .caches)
        guard let ready else { return }
        let priorities = Job.Priority.allCases.map { priority in
            (priority.rawValue, Priority(jobs: ready.counts[priority] ?? 0, oldest: ready.ages[priority]))
        }
        try container.encode(Dictionary(uniqueKeysWithValues: priorities), forKey: .ready)
    }
}
