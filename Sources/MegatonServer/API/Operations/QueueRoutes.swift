internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonRedis

/// The state of the queue and its workers, and the modes that pause it.
struct QueueRoutes: Sendable {
    let cluster: ClusterConnection

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        read.get("queue") { request, _ in try await state(request) }
        read.get("workers") { request, _ in try await workers(request) }
        admin.post("queue/pause") { request, context in
            try await change(request, context, "paused") { try await $0.set(.paused, to: true) }
        }
        admin.post("queue/drain") { request, context in
            try await change(request, context, "draining") { try await $0.set(.drain, to: true) }
        }
        admin.post("queue/resume") { request, context in
            try await change(request, context, "resumed") { queue in
                for mode in JobQueue.PauseMode.allCases { try await queue.set(mode, to: false) }
            }
        }
    }

    private func state(_ request: Request) async throws -> Response {
        _ = try QueryArguments(request)
        let inspector = try await cluster.inspector()
        let status = try await inspector.status(skipsDamage: true)
        let ready = try await inspector.readyJobs()
        let caches = await inspector.cacheServers()
        return try APIResponse.json(ClusterReport(status: status, caches: caches, ready: ready))
    }

    /// The processes of the cluster.
    private struct Processes: Encodable {
        let leader: String?
        let coordinators: [ClusterStatus.Coordinator]
        let workers: [ClusterStatus.Worker]
        /// Number of workers that have missed at most two heartbeats.
        let living: Int
        /// Living processes by version and protocol.
        let versions: [String: Int]
        /// Sentences for people.
        let warnings: [String]

        init(_ status: ClusterStatus) {
            leader = status.leader
            coordinators = status.coordinators
            workers = status.workers
            living = status.livingWorkers.count
            versions = status.versions
            warnings = status.versionWarnings
        }
    }

    private func workers(_ request: Request) async throws -> Response {
        _ = try QueryArguments(request)
        let status = try await cluster.inspector().status(skipsDamage: true)
        return try APIResponse.json(Processes(status))
    }

    /// The modes that pause the queue after a change.
    private struct Modes: Encodable {
        /// `paused`, `drain`, both or none; the name is that of the status.
        let brakes: [String]
        /// Jobs that are staged or admitted and have not ended.
        let admitted: Int
    }

    private func change(
        _ request: Request,
        _ context: ServerContext,
        _ result: String,
        _ body: (ShardedQueue) async throws -> Void
    ) async throws -> Response {
        _ = try QueryArguments(request)
        let queue = try await cluster.queue()
        try await body(queue)
        context.logger.notice("the queue was changed", metadata: context.change(["result": "\(result)"]))
        let pauses = try await cluster.inspector().status(skipsDamage: true).pauses
        return try APIResponse.json(Modes(brakes: pauses, admitted: try await queue.alive()))
    }
}
