internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import ServiceLifecycle

/// An HTTP listener of a process: health checks and metrics.
///
/// - `/live` is 200 while the process responds.
/// - `/ready` is 200 while it can work, and 503 while it cannot. The two differ because restarting a worker whose Redis
///   is unreachable would not help.
/// - `/metrics` has the metrics in the text format of Prometheus.
///
/// A silent or slow client is disconnected after ``idleTimeout``, and at most ``maximumConnections`` are open at a
/// time, so that clients cannot use up the descriptors that the process needs for its work.
package struct Listener: Sendable {
    /// Maximum number of open connections; further ones wait in the backlog of the socket.
    static let maximumConnections = 64

    private let address: ListenAddress
    private let idleTimeout: Duration
    private let isReady: @Sendable () async -> Bool
    private let metrics: @Sendable () async -> [MetricFamily]
    private let logger: Logger

    /// - Parameters:
    ///   - idleTimeout: time in which a client must send a request, and receive the response.
    ///   - isReady: called for each request of `/ready`: must not block, and answer soon.
    ///   - metrics: called for each request of `/metrics`. Requests at the same time call it at the same time.
    package init(
        _ address: ListenAddress,
        idleTimeout: Duration = .seconds(5),
        isReady: @escaping @Sendable () async -> Bool,
        metrics: @escaping @Sendable () async -> [MetricFamily],
        logger: Logger
    ) {
        self.address = address
        self.idleTimeout = idleTimeout
        self.isReady = isReady
        self.metrics = metrics
        self.logger = logger
    }

    /// Listens while the body runs.
    ///
    /// - Parameter body: receives the port, which the system may have chosen.
    /// - Throws: ``ListenError``, and the errors of the body.
    package func serve<Value: Sendable>(
        while body: @escaping @Sendable (_ port: Int) async throws -> Value
    ) async throws -> Value {
        try await GracefulServer(address: address, drainLimit: idleTimeout, logger: Self.quiet(logger))
            .serve(application, while: body)
    }

    private func application(didStart: @escaping @Sendable (Int) -> Void) -> any Service {
        let quiet = Self.quiet(logger)
        return Application(
            router: router,
            server: .http1(
                configuration: .init(
                    additionalChannelHandlers: [
                        HTTP1RulesInstaller(limit: idleTimeout), StalledWriteLimit(idleTimeout),
                    ],
                    idleTimeout: TimeAmount(idleTimeout)
                )
            ),
            configuration: ApplicationConfiguration(
                address: .hostname(address.host, port: address.port),
                availableConnectionsDelegate: .maximum(Self.maximumConnections, logger: quiet)
            ),
            onServerRunning: { didStart($0.localAddress?.port ?? address.port) },
            logger: quiet
        )
    }

    /// The framework reports each start and stop at `info`.
    private static func quiet(_ logger: Logger) -> Logger {
        var logger = logger
        logger.logLevel = max(logger.logLevel, .warning)
        return logger
    }

    private var router: Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.get("/live") { _, _ in Self.text("live\n") }
        router.get("/ready") { _, _ in
            await isReady() ? Self.text("ready\n") : Self.text("Redis does not answer\n", .serviceUnavailable)
        }
        router.get("/metrics") { _, _ in
            Self.text(PrometheusText.encode(await metrics()), type: PrometheusText.contentType)
        }
        router.get("**") { _, _ in Self.text("/live, /ready or /metrics\n", .notFound) }
        return router
    }

    static func text(
        _ text: String,
        _ status: HTTPResponse.Status = .ok,
        type: String = "text/plain; charset=utf-8"
    ) -> Response {
        Response(
            status: status,
            headers: [.contentType: type, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
    }

    static func reason(_ error: any Error) -> String {
        if let error = error as? IOError { return String(cString: strerror(error.errnoCode)) }
        return error is SocketAddressError.UnknownHost ? "no such host" : "\(error)"
    }
}
