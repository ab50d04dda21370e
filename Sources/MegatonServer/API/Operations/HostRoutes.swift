internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCluster
internal import MegatonRedis

/// The hosts of origins: those that are restricted, and those with most fetches.
struct HostRoutes: Sendable {
    let cluster: ClusterConnection

    /// Maximum number of restricted hosts in an answer.
    private static let shownRestricted = 1_000
    /// Maximum number of hosts with their fetches in an answer.
    private static let shownFetched = 50

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        read.get("hosts") { request, _ in try await list(request) }
    }

    /// A host that gets fewer requests than its limits allow, or probes only.
    struct Restricted: Encodable {
        let host: String
        let isLimited: Bool
        let isOpen: Bool
        /// Remaining fraction of the limits.
        let factor: Double
        /// Consecutive failures.
        let failures: Int
        /// Seconds until the next request, as the host asked for a pause.
        let blockedSeconds: Double
        /// Seconds until the next probe of an open circuit breaker.
        let openSeconds: Double
        /// See `HostState.lastFailure`.
        let lastFailure: String?

        private enum CodingKeys: String, CodingKey {
            case host, factor, failures, blockedSeconds, openSeconds, lastFailure
            case isLimited = "limited"
            case isOpen = "open"
        }

        init(_ state: HostState) {
            host = state.name
            (isLimited, isOpen) = (state.isLimited, state.isOpen)
            (factor, failures) = (state.factor, state.failures)
            (blockedSeconds, openSeconds) = (state.blockedFor, state.openFor)
            lastFailure = state.lastFailure
        }
    }

    struct Fetched: Encodable {
        let host: String
        let fetches: Int
    }

    private struct Listing: Encodable {
        /// Those with most failures first.
        let restricted: [Restricted]
        /// Number of restricted hosts, also of those that are not listed.
        let restrictedCount: Int
        /// Since the queue was created, those with most fetches first.
        let mostFetched: [Fetched]
    }

    private func list(_ request: Request) async throws -> Response {
        _ = try QueryArguments(request)
        let inspector = try await cluster.inspector()
        let hosts = try await inspector.restrictedHosts()
        let fetches = try await inspector.cacheCounters().originFetchesByHost
        let byFailures = hosts.sorted { ($1.failures, $0.name) < ($0.failures, $1.name) }
        let byFetches = fetches.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        return try APIResponse.json(
            Listing(
                restricted: byFailures.prefix(Self.shownRestricted).map(Restricted.init),
                restrictedCount: hosts.count,
                mostFetched: byFetches.prefix(Self.shownFetched).map { Fetched(host: $0.key, fetches: $0.value) }
            )
        )
    }
}
