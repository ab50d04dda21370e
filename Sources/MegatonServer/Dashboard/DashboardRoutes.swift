internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import NIOCore
internal import ServiceLifecycle

/// Routes of the dashboard's data: one state, and a stream of states as server-sent events.
///
/// Events: `begin` with the points of the last hour and whether the token may change the queue; then `snapshot` with
/// the state, or `unavailable` with a sentence while Redis does not answer.
struct DashboardRoutes: Sendable {
    private let feed: DashboardFeed
    private let streams = EventStreams(Self.maximumStreams, of: "dashboards")

    /// Maximum number of open pages.
    static let maximumStreams = 100
    /// Time after which a stream ends, and the page opens another one: a token that was removed or has expired must not
    /// see the cluster for longer.
    static let maximumAge: Duration = .seconds(300)

    init(_ feed: DashboardFeed) { self.feed = feed }

    func add(to read: RouterGroup<ServerContext>) {
        read.get("dashboard") { (request, context) async throws -> Response in try await show(request, context) }
        read.get("dashboard/events") { (request, context) async throws -> Response in
            try await events(request, context)
        }
    }

    /// The beginning of a stream.
    private struct Begin: Encodable {
        /// Whether the token has the scope `admin`.
        let mayChange: Bool
        let history: [DashboardPoint]
    }

    private struct State: Encodable {
        let mayChange: Bool
        let history: [DashboardPoint]
        let snapshot: DashboardSnapshot
    }

    private static func mayChange(_ context: ServerContext) -> Bool { context.identity?.allows(.admin) == true }

    private func show(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try QueryArguments(request)
        let sample = await feed.sample()
        guard let snapshot = sample.snapshot else { throw APIError.unavailable(sample.problem) }
        let history = await feed.history.points
        return try APIResponse.json(
            State(mayChange: Self.mayChange(context), history: history, snapshot: snapshot)
        )
    }

    private func events(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try QueryArguments(request)
        let place = try streams.enter(request)
        let mayChange = Self.mayChange(context)
        return streams.response(request, context, place: place) { (writer) async throws in
            try await write(mayChange: mayChange, to: &writer)
        }
    }

    /// Writes events until the stream is too old, the server shuts down, or the task is cancelled.
    private func write(mayChange: Bool, to writer: inout EventWriter) async throws {
        let end = ContinuousClock.now + Self.maximumAge
        var sample = await feed.sample()
        let begin = Begin(mayChange: mayChange, history: await feed.history.points)
        try await writer.write(try DashboardFeed.event("begin", begin))
        var shown = 0
        while !Task.isShuttingDownGracefully {
            try Task.checkCancellation()
            if sample.number != shown { try await writer.write(sample.event) }
            shown = sample.number
            if ContinuousClock.now >= end { return }
            try await Task.sleep(until: sample.staleAt, clock: .continuous)
            sample = await feed.sample()
        }
    }
}
