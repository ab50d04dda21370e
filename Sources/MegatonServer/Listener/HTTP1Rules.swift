internal import Foundation
internal import MegatonPipeline
internal import NIOCore
internal import NIOHTTP1

/// Adds the rules of HTTP/1 that the framework lacks to a connection.
///
/// They need the version of a request, and the framework places the handlers of an application behind the one that
/// drops it. So this handler places another one beside the decoder.
final class HTTP1RulesInstaller: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    private let limit: Duration

    /// - Parameter limit: time for which the rest of a body is read behind its response, and for which the last bytes
    ///   of a response are sent before the connection is closed.
    init(limit: Duration) { self.limit = limit }

    func handlerAdded(context: ChannelHandlerContext) {
        do {
            let pipeline = context.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(HTTP1Rules(limit), position: .after(decoder))
        } catch {
            context.fireErrorCaught(error)
        }
    }
}

/// Rules of one connection:
///
/// - It ends with the response to a request whose client does not keep it open (RFC 9112 section 9.3): one of HTTP/1.0
///   without `keep-alive`, whose client reads until the connection is closed, or one with `close` in any case of
///   letters. The framework ends it if the field `Connection` is exactly `close`. The response says whether it ends.
/// - A response to HEAD has no body (RFC 9110 section 9.3.2). The framework knows that of its routes, and not of the
///   errors of paths that are none.
/// - A connection that is closed behind its last response is closed when the response is sent, or after a time limit.
///   The framework closes it as soon as that is written: if the server shuts down, or the client has closed its side, a
///   slow client would lose the bytes that the channel still has for it.
/// - A response to HTTP/1.0 has no `Transfer-Encoding` (RFC 9112 section 6.1): without a length, it ends with the
///   connection.
/// - A client that was answered in the middle of its body, for the most part by a refusal, has a time limit for the
///   rest. The framework reads it for as long as it comes, also from a client without a token. It must be read for some
///   time: bytes that are left unread would make the client lose the response.
/// - Behind a request for another protocol nothing is read: the decoder would keep all that comes, without a limit.
/// - A request is refused as ``HTTP1Head`` says. The answer to it, and to bytes that are no request, is a
///   `ProblemDocument`, as all other errors are. That of the framework has no body, and no middleware sees it.
private final class HTTP1Rules: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let limit: Duration
    private var rest: CloseTimer
    /// The end of the last response; nil when the system has its bytes.
    private var lastEnd: EventLoopFuture<Void>?
    /// Whether a response that ends with the connection has been written: nothing follows it.
    private var hasEnded = false
    /// Ends the wait for `lastEnd` before a close; nil if nothing has closed the connection.
    private var closing: Scheduled<Void>?
    /// Whether the last request that has begun has not ended.
    private var isRequestOpen = false
    /// The requests without a complete response, the oldest one first. A client may send several at once: as many as
    /// one read from the socket has.
    private var unanswered: CircularBuffer<HTTP1Head> = []
    /// A request that was refused, after which the connection ends.
    private var refused: HTTP1Head?
    /// Whether the current response ends with the connection.
    private var endsConnection = false
    /// Whether the last request that has begun wants another protocol, and whether the connection ends with it.
    private var isUpgrade = false
    private var isLast = false
    /// Whether that request has ended, or the connection is about to be closed: further requests are not answered.
    private var ignoresRequests = false
    /// Whether nothing more is read.
    private var ignoresInput = false

    init(_ limit: Duration) {
        self.limit = limit
        rest = CloseTimer(limit)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        rest.stop()
        closing?.cancel()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = Self.unwrapInboundIn(data)
        if refused != nil || ignoresRequests {
            if case .end = part, isUpgrade { ignoresInput = true }
            return
        }
        switch part {
        case .head(var head):
            let request = HTTP1Head(head)
            isUpgrade = request.isUpgrade
            isLast = !request.keepsConnection
            guard request.isValid else {
                refused = request
                // The framework answers it like bytes that are no request, and closes the connection.
                context.fireErrorCaught(HTTPParserError.invalidHeaderToken)
                return
            }
            isRequestOpen = true
            unanswered.append(request)
            if request.keepsConnection { break }
            head.headers.replaceOrAdd(name: "Connection", value: "close")
            context.fireChannelRead(Self.wrapInboundOut(.head(head)))
            return
        case .body: break
        case .end:
            isRequestOpen = false
            ignoresRequests = isLast
            ignoresInput = isUpgrade
            rest.stop()
        }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        if !ignoresInput { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The rest of a refused request may be no request either, and has been answered.
        if refused != nil, error is HTTPParserError { return }
        context.fireErrorCaught(error)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if hasEnded {
            promise?.succeed()
            return
        }
        switch Self.unwrapOutboundIn(data) {
        case .head(let head) where Self.isOfFramework(head):
            refuse(head, context, promise)
            return
        case .head(var head):
            if let request = unanswered.first { adapt(&head, to: request) }
            context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
            return
        case .body where unanswered.first?.isHead == true:
            promise?.succeed()
            return
        case .body: break
        case .end:
            _ = unanswered.popFirst()
            if isRequestOpen && unanswered.isEmpty { rest.start(context.channel) }
            guard unanswered.isEmpty || endsConnection else { break }
            hasEnded = endsConnection
            let written = context.eventLoop.makePromise(of: Void.self)
            let end = written.futureResult
            end.cascade(to: promise)
            lastEnd = end
            // Safe: on the event loop of the connection, as all of this handler.
            end.assumeIsolated().whenComplete { [self] _ in if lastEnd === end { lastEnd = nil } }
            context.write(data, promise: written)
            if endsConnection { context.channel.close(promise: nil) }
            return
        }
        context.write(data, promise: promise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode != .input, let lastEnd else {
            // The framework closes the input of a connection that it cuts off.
            let isCutOff = mode == .input && lastEnd != nil && closing != nil
            context.close(mode: isCutOff ? .all : mode, promise: promise)
            return
        }
        if closing == nil {
            ignoresRequests = true
            closing = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limit)) {
                context.close(mode: .all, promise: nil)
            }
            context.flush()
        }
        // Several handlers of the framework close a connection.
        lastEnd.assumeIsolated().whenComplete { _ in context.close(mode: mode, promise: promise) }
    }

    /// Makes the head of a response one of the version of its request.
    private func adapt(_ head: inout HTTPResponseHead, to request: HTTP1Head) {
        // Informational: another response follows.
        if head.status.code < 200 { return }
        let hasBody = !request.isHead && ![204, 304].contains(head.status.code)
        if request.version == .http1_0 && hasBody && !head.headers.contains(name: "Content-Length") {
            // The encoder gives a response of HTTP/1.1 a `Transfer-Encoding`.
            head.version = .http1_0
            endsConnection = true
        }
        if endsConnection || !request.keepsConnection {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        } else if request.version == .http1_0 {
            head.headers.replaceOrAdd(name: "Connection", value: "keep-alive")
        }
    }

    private func refuse(
        _ head: HTTPResponseHead,
        _ context: ChannelHandlerContext,
        _ promise: EventLoopPromise<Void>?
    ) {
        var head = head
        // A document of texts can always be encoded; an empty one says enough with its status.
        let json = (try? ProblemDocument.invalidRequest.json()) ?? Data()
        head.headers.replaceOrAdd(name: "Date", value: HTTPDate.text(.now))
        head.headers.replaceOrAdd(name: "Content-Type", value: ProblemDocument.contentType)
        head.headers.replaceOrAdd(name: "Content-Length", value: "\(json.count)")
        head.headers.replaceOrAdd(name: "Cache-Control", value: "no-store")
        context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
        if refused?.isHead == true { return }
        // The framework writes the end.
        context.write(Self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: json)))), promise: nil)
    }

    /// Whether a response is the framework's to bytes that are no request: each other one with this status has a body.
    private static func isOfFramework(_ head: HTTPResponseHead) -> Bool {
        head.status.code == 400 && head.headers.first(name: "Content-Length") == "0"
            && head.headers.first(name: "Connection") == "close"
    }
}
