public import Foundation
public import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A real HTTP server on its own loopback port that counts requests and responds as a test defines.
public final class OriginServer: Sendable {
    /// A response.
    public struct Answer: Sendable {
        public var status: Int
        public var headers: [(String, String)]
        public var body: Data
        /// Content-Length sent instead of the body's own length: a truncated response.
        public var announcedLength: Int?
        /// Follows the body. Without `announcedLength` no length is sent, and the response is chunked (RFC 9112 section
        /// 7.1).
        public var stream: OriginStream?

        public init(
            status: Int = 200,
            headers: [(String, String)] = [],
            body: Data = Data(),
            announcedLength: Int? = nil,
            stream: OriginStream? = nil
        ) {
            self.status = status
            self.headers = headers
            self.body = body
            self.announcedLength = announcedLength
            self.stream = stream
        }

        public static func image(_ data: Data, headers: [(String, String)] = []) -> Answer {
            Answer(headers: headers, body: data)
        }

        /// - Parameter length: nil sends no Content-Length.
        func head(length: Int?) -> HTTPResponseHead {
            var head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status))
            for (name, value) in headers { head.headers.add(name: name, value: value) }
            if let length { head.headers.replaceOrAdd(name: "content-length", value: String(length)) }
            return head
        }
    }

    /// A request received.
    public struct Request: Sendable {
        /// Path with the query.
        public let path: String
        /// Header fields; names in lower case.
        public let headers: [String: String]
        public var method = "GET"
        public var body = Data()
    }

    private struct State {
        var counts: [String: Int] = [:]
        var streamed: [String: Int] = [:]
        var waiting: [Int: (path: String, count: Int, continuation: CheckedContinuation<Void, Never>)] = [:]
        var lastWaiter = 0
        var isHeld = false
        var isStopped = false
        var held: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())
    private let channel: any Channel
    private let answer: @Sendable (Request) -> Answer
    /// Delay of each response, as of a slow origin.
    private let delay: TimeAmount

    /// - Parameter answer: returns the response for a path with its query.
    public static func start(
        delay: TimeAmount = .zero,
        _ answer: @escaping @Sendable (String) -> Answer
    ) async throws -> OriginServer {
        try await listen(delay) { answer($0.path) }
    }

    private static func listen(
        _ delay: TimeAmount,
        _ answer: @escaping @Sendable (Request) -> Answer
    ) async throws -> OriginServer {
        let box = Mutex<OriginServer?>(nil)
        let lookup = ServerBox(box)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 512)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(lookup))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let server = OriginServer(channel, delay, answer)
        lookup.server.withLock { $0 = server }
        return server
    }

    /// Starts a server, runs the body, and stops the server.
    public static func run<Value>(
        delay: TimeAmount = .zero,
        isolation: isolated (any Actor)? = #isolation,
        answer: @escaping @Sendable (String) -> Answer,
        _ body: (OriginServer) async throws -> Value
    ) async throws -> Value {
        try await run(delay: delay, responding: { answer($0.path) }, body)
    }

    /// Starts a server that sees the header fields of requests, runs the body, and stops the server.
    public static func run<Value>(
        delay: TimeAmount = .zero,
        isolation: isolated (any Actor)? = #isolation,
        responding answer: @escaping @Sendable (Request) -> Answer,
        _ body: (OriginServer) async throws -> Value
    ) async throws -> Value {
        let server = try await listen(delay, answer)
        do {
            let value = try await body(server)
            server.stop()
            return value
        } catch {
            server.stop()
            throw error
        }
    }

    private init(_ channel: any Channel, _ delay: TimeAmount, _ answer: @escaping @Sendable (Request) -> Answer) {
        self.channel = channel
        self.delay = delay
        self.answer = answer
    }

    public var port: Int { channel.localAddress?.port ?? 0 }

    public func url(_ path: String) -> URL { URL(string: "http://127.0.0.1:\(port)\(path)")! }

    /// Number of requests for a path so far.
    public func count(_ path: String) -> Int { state.withLock { $0.counts[path] ?? 0 } }

    /// Number of all requests so far.
    public var total: Int { count(Self.anyPath) }

    /// Key of the number of all requests.
    private static let anyPath = ""

    /// Bytes of streams sent for a path so far, as far as the kernel has accepted them.
    public func streamed(_ path: String) -> Int { state.withLock { $0.streamed[path] ?? 0 } }

    /// Holds responses from now on.
    public func hold() { state.withLock { $0.isHeld = true } }

    /// Sends held responses, and holds no later ones.
    public func release() {
        let held = state.withLock { state in
            state.isHeld = false
            defer { state.held = [] }
            return state.held
        }
        for send in held { send() }
    }

    /// Returns once a path was requested `count` times, or if the task is cancelled: at the time limit of a test.
    public func waitForRequests(_ path: String, count: Int) async {
        let id = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReached = state.withLock { state in
                    if state.counts[path] ?? 0 >= count || Task.isCancelled { return true }
                    state.waiting[id] = (path, count, continuation)
                    return false
                }
                if isReached { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: id) }?.continuation.resume()
        }
    }

    /// Returns once there were `count` requests, for whatever path.
    public func waitForRequests(count: Int) async { await waitForRequests(Self.anyPath, count: count) }

    /// Stops the server, and all streams with it.
    public func stop() {
        state.withLock { $0.isStopped = true }
        release()
        channel.close(promise: nil)
    }

    /// Records a sent piece of a stream.
    ///
    /// - Returns: whether to send another.
    fileprivate func sent(_ count: Int, for path: String) -> Bool {
        state.withLock { state in
            state.streamed[path, default: 0] += count
            return !state.isStopped
        }
    }

    fileprivate func received(
        _ request: Request,
        send: @escaping @Sendable (Answer) -> Void,
        on loop: any EventLoop
    ) {
        let path = request.path
        let answer = answer(request)
        let (woken, isHeld) = state.withLock { state in
            for key in [path, Self.anyPath] { state.counts[key, default: 0] += 1 }
            let woken = state.waiting.filter { state.counts[$0.value.path] ?? 0 >= $0.value.count }
            for id in woken.keys { state.waiting.removeValue(forKey: id) }
            if state.isHeld { state.held.append { send(answer) } }
            return (woken, state.isHeld)
        }
        for waiter in woken.values { waiter.continuation.resume() }
        if !isHeld { loop.scheduleTask(in: delay) { send(answer) } }
    }
}

private final class ServerBox: Sendable {
    let server: Mutex<OriginServer?>

    init(_ server: consuming Mutex<OriginServer?>) { self.server = server }
}

private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let box: ServerBox
    private var request = OriginServer.Request(path: "", headers: [:])
    private var isHead = false

    init(_ box: ServerBox) { self.box = box }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            let fields = head.headers.map { ($0.name.lowercased(), $0.value) }
            request = OriginServer.Request(
                path: head.uri,
                headers: Dictionary(fields, uniquingKeysWith: { "\($0), \($1)" }),
                method: head.method.rawValue
            )
            isHead = head.method == .HEAD
        case .body(let part): request.body.append(contentsOf: part.readableBytesView)
        case .end:
            guard let server = box.server.withLock({ $0 }) else { return }
            let (loop, channel, path, isHead) = (context.eventLoop, context.channel, request.path, isHead)
            let send: @Sendable (OriginServer.Answer) -> Void = { answer in
                Self.send(answer, withBody: !isHead, on: channel) { server.sent($0, for: path) }
            }
            server.received(request, send: send, on: loop)
        }
    }

    /// - Parameters:
    ///   - withBody: false for an answer to HEAD, which has the length of the body only.
    ///   - streamed: called with the size of each sent piece of a stream; returns whether to go on.
    private static func send(
        _ answer: OriginServer.Answer,
        withBody: Bool,
        on channel: any Channel,
        streamed: @escaping @Sendable (Int) -> Bool
    ) {
        if let stream = answer.stream {
            channel.eventLoop.execute { OriginStreamSender(stream, of: answer, on: channel, streamed).start() }
            return
        }
        let head = answer.head(length: answer.announcedLength ?? answer.body.count)
        channel.write(HTTPServerResponsePart.head(head), promise: nil)
        if withBody {
            channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: answer.body))), promise: nil)
        }
        if answer.announcedLength != nil {
            // The announced rest never comes: the connection closes early.
            channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer()))).whenComplete { _ in
                channel.close(promise: nil)
            }
        } else {
            channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
        }
    }
}
