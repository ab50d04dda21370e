internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonCore
internal import NIOCore
internal import ServiceLifecycle

/// Routes of the outcomes of a batch: pages for long polling, and server-sent events. Both leave the outcomes in Redis.
struct OutcomeRoutes: Sendable {
    let cluster: ClusterConnection
    private let streams: EventStreams
    private let largePages: RequestLimit
    private let polls: RequestLimit
    private let pages = RequestLimit(Self.maximumPages, of: "large answers of outcomes")

    /// Maximum number of large answers that clients have not read yet, and as many large pages of event streams: each
    /// has at most about 1 MiB.
    static let maximumPages = 64
    /// Maximum number of event streams at a time, and of requests that wait for outcomes.
    static let maximumStreams = 1000
    /// Maximum time for which a request waits for outcomes.
    static let maximumWait = 60

    init(
        cluster: ClusterConnection,
        streams: EventStreams = EventStreams(OutcomeRoutes.maximumStreams, of: "event streams"),
        largePages: RequestLimit = RequestLimit(OutcomeRoutes.maximumPages, of: "large pages of events"),
        polls: RequestLimit = RequestLimit(OutcomeRoutes.maximumStreams, of: "long polls")
    ) {
        self.cluster = cluster
        self.streams = streams
        self.largePages = largePages
        self.polls = polls
    }

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        read.get("batches/:name/outcomes") { (request, context) async throws -> Response in
            try await outcomes(request, context)
        }
        read.get("batches/:name/events") { (request, context) async throws -> Response in
            try await events(request, context)
        }
    }

    /// The first page of a view.
    ///
    /// - Throws: if there is no such batch, or it keeps no outcomes, or the position is none of this queue.
    private func page(
        _ view: OutcomeView,
        from position: OutcomePosition,
        limit: Int
    ) async throws -> OutcomeView.Page {
        let page = try await view.page(from: position, limit: limit)
        guard page.counters.isKnown else { throw APIError.unknownBatch(view.batch) }
        guard page.counters["ledger"] == 1 else { throw APIError.noOutcomes(view.batch) }
        guard position.shardCount <= view.shardCount else {
            throw APIError(
                .badRequest,
                "The position has numbers of \(position.shardCount) shards, and the queue has \(view.shardCount): it "
                    + "is one of another queue, or of an earlier state of this one. Read from 1."
            )
        }
        return page
    }

    private static func position(_ text: String?) throws(APIError) -> OutcomePosition {
        guard let text else { return .start }
        guard let position = OutcomePosition(text) else {
            throw APIError(
                .badRequest,
                "The position \(FieldProblem.quoted(text)) is none: allowed are numbers from 1, and the texts that the "
                    + "server has sent in Megaton-Next, or as the id of an event."
            )
        }
        return position
    }

    // MARK: - Pages

    private func outcomes(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try BatchRoutes.name(context)
        let arguments = try QueryArguments(request, allowed: "from", "limit", "wait")
        let position = try Self.position(arguments.text("from"))
        let limit = try arguments.number("limit", 1...OutcomeView.maximumCount) ?? OutcomeView.maximumCount
        let wait = try arguments.number("wait", 0...Self.maximumWait) ?? 0
        let view = OutcomeView(queue: try await cluster.queue(), batch: name)
        var page = try await page(view, from: position, limit: limit)
        guard wait > 0, page.count == 0, !page.isLast else { return try response(page, context) }
        let place = try polls.enter()
        defer { withExtendedLifetime(place) {} }
        let deadline = ContinuousClock.now + .seconds(wait)
        var pace = OutcomePace()
        while page.count == 0, !page.isLast, !page.wentBack {
            let rest = ContinuousClock.now.duration(to: deadline)
            if rest <= .zero || Task.isShuttingDownGracefully { break }
            try await Task.sleep(for: min(pace.next(), rest))
            // Its place is for a client that waits.
            if await DepartureNote.hasLeft(context.channel) { break }
            page = try await self.page(view, from: position, limit: limit)
        }
        return try response(page, context)
    }

    private func response(_ page: OutcomeView.Page, _ context: ServerContext) throws -> Response {
        var headers: HTTPFields = [.contentType: "application/x-ndjson", .cacheControl: "no-store"]
        headers.set("Megaton-Next", "\(page.next)")
        headers.set("Megaton-Finished", "\(page.isLast)")
        if page.missing > 0 { headers.set("Megaton-Missing", "\(page.missing)") }
        if page.wentBack { headers.set("Megaton-Reset", "true") }
        var body = ByteBuffer()
        for line in page.parts.lazy.flatMap(\.lines) {
            body.writeBytes(context.shown(APIResponse.line(line)))
            body.writeString("\n")
        }
        if body.readableBytes <= APIResponse.pieceSize {
            return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: body))
        }
        let large = APIResponse.body(body, holding: try pages.enter(), on: context.channel.eventLoop)
        return Response(status: .ok, headers: headers, body: large)
    }

    // MARK: - Events

    private func events(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try BatchRoutes.name(context)
        let arguments = try QueryArguments(request, allowed: "from")
        // The field is that of a reader that connects again, by the same URL.
        // A reader that has had no event yet may send an empty field.
        let last = request.field("Last-Event-ID").flatMap { $0.isEmpty ? nil : $0 }
        let position = try Self.position(last ?? arguments.text("from"))
        let place = try streams.enter(request)
        let view = OutcomeView(queue: try await cluster.queue(), batch: name)
        // Errors have their status, which they no longer can once the stream has begun.
        _ = try await page(view, from: position, limit: 0)
        let events = OutcomeEvents(
            view: view,
            hidesSecrets: context.hidesSecrets,
            isAllowed: context.isStillValid ?? { false },
            largePages: largePages,
            logger: context.logger
        )
        return streams.response(request, context, place: place) { (writer) async throws in
            try await events.write(from: position, to: &writer)
        }
    }
}
