import ArgumentParser
import CoreMetrics
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonServer

/// `megaton serve`
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve HTTP until SIGTERM: submit and follow jobs, administer the queue, read metrics, get images.",
        discussion: """
            Examples:
              megaton serve --redis redis://127.0.0.1:6479 --cache-redis redis://127.0.0.1:6480 \\
                  --tokens tokens.json
              megaton serve --listen 10.0.0.5:8080 --tokens tokens.json --metrics-listen 127.0.0.1:8092
              megaton serve --open
              megaton serve --tokens tokens.json --allowed-sizes 320,640,1280 --image-rate 20

            Browsers show the dashboard at /, which asks for a token. Clients send a token of the file in the header \
            Authorization. GET /api/v1/openapi.json describes all requests. Several servers may run for a queue. The \
            file is read again when it has changed, and at SIGHUP. \
            After SIGTERM running requests have 25 s to end; a second SIGTERM ends them at once.

            With a key and a salt in hex in the variables MEGATON_KEY and MEGATON_SALT it serves images at \
            /image/SIGNATURE/OPTIONS/SOURCE, with imgproxy's URLs and signatures, from the cache of the workers.

            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup(title: "Redis") var redis: RedisOptions
    @OptionGroup(title: "Images") var images: ImageRouteOptions
    @OptionGroup(title: "Access to Sources") var access: SourceAccessOptions
    @OptionGroup(title: "Limits of Sources") var limits: SourceLimitOptions
    @OptionGroup(title: "Log") var log: LogOptions

    @Option(
        name: .long,
        help: ArgumentHelp("Serve HTTP at this address; port 0 lets the system choose one.", valueName: "address:port")
    )
    var listen = "127.0.0.1:8080"

    @Option(
        name: .long,
        help: ArgumentHelp(
            "JSON file with the tokens of clients and their scopes, which only its owner can read: {\"tokens\": "
                + "[{\"token\": \"…\", \"scopes\": [\"read\"]}]}.",
            valueName: "file"
        ),
        completion: .file()
    )
    var tokens: String?

    @Flag(
        name: .long,
        help: "Ask for no token, and let every program of this machine do everything; only with a loopback address."
    )
    var open = false

    @Option(
        name: .customLong("metrics-listen"),
        help: ArgumentHelp(
            "Serve /metrics, /live and /ready without a token at this address too.",
            valueName: "address:port"
        )
    )
    var metricsListen: String?

    @Option(
        name: .customLong("wait-for-redis"),
        help: ArgumentHelp(
            "How long Redis may be unreachable or still loading at the start; 0 fails at once.",
            valueName: "seconds"
        )
    )
    var waitForRedis: Double = 60

    mutating func validate() throws {
        try OptionRange.check("--wait-for-redis", waitForRedis, 0...86400, " seconds")
        guard let address = ListenAddress(listen) else {
            throw ValidationError("--listen must look like 127.0.0.1:8080, not \"\(listen)\".")
        }
        if let metricsListen, ListenAddress(metricsListen) == nil {
            throw ValidationError("--metrics-listen must look like 127.0.0.1:8092, not \"\(metricsListen)\".")
        }
        if tokens?.isEmpty == true { throw ValidationError("--tokens is empty; it must name a file.") }
        if open && tokens != nil { throw ValidationError("--open and --tokens exclude each other.") }
        if !open && tokens == nil {
            throw ValidationError(
                "No tokens are named: give --tokens FILE, or --open for a server that only this machine can reach."
            )
        }
        if open && !LoopbackRule.isLoopback(address.host) {
            throw ValidationError(
                "--open lets everyone who reaches the server do everything, and \(listen) is no loopback address. Give "
                    + "--tokens FILE, or --listen 127.0.0.1:\(address.port)."
            )
        }
        if images.allowsUnsigned && !LoopbackRule.isLoopback(address.host) {
            throw ValidationError(
                "--unsigned-images lets everyone who reaches the server fetch and render with it, and \(listen) is no "
                    + "loopback address. Set MEGATON_KEY and MEGATON_SALT, or give --listen 127.0.0.1:\(address.port)."
            )
        }
    }

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            let logger = log.logger("megaton.serve")
            let reloader = try tokens.map { try TokenReloader($0, logger: logger) }
            // Before anything that counts.
            let registry = PrometheusRegistry(MetricCatalog.all, expected: MetricCatalog.ofServers)
            MetricsSystem.bootstrap(registry)
            guard var configuration = ListenAddress(listen).map(HTTPServer.Configuration.init) else {
                throw CLIError.usage("--listen must look like 127.0.0.1:8080, not \"\(listen)\".")
            }
            configuration.metricsAddress = metricsListen.flatMap(ListenAddress.init)
            configuration.redisLimit = .seconds(waitForRedis)
            let listening = AsyncSignal()
            let server = HTTPServer(
                configuration,
                gate: reloader.map { AccessGate($0.tokens) } ?? .open,
                cluster: ClusterConnection(try redis.address(), caches: try redis.caches(), logger: logger),
                registry: registry,
                process: ProcessMetrics(version: Megaton.version, role: "serve"),
                images: try await images.server(redis, access, limits, logger: logger),
                onListening: { listening.signal() },
                logger: logger
            )
            let runner = ServiceRunner(
                listener: nil,
                redisLimit: .zero,
                shutdown: shutdown,
                manager: ServiceManager(logger: logger),
                logger: logger
            )
            // Without a file to read again, SIGHUP ends the server.
            var hangUp: (@Sendable () -> Void)?
            if let reloader { hangUp = { reloader.hangUp() } }
            do {
                try await ProcessSignals.forwarded(to: shutdown, hangUp: hangUp) {
                    try await Self.run(server, runner, reloader, listening)
                }
            } catch let error as ListenError {
                let isMetrics = error.address != configuration.address
                throw CLIError.system("\(isMetrics ? "--metrics-listen" : "--listen") \(error)")
            }
        }
    }

    /// Runs the server, and looks at the file of tokens meanwhile.
    ///
    /// - Parameter listening: signaled when the server listens.
    private static func run(
        _ server: HTTPServer,
        _ runner: ServiceRunner,
        _ reloader: TokenReloader?,
        _ listening: AsyncSignal
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            if let reloader { group.addTask { await reloader.run() } }
            defer { group.cancelAll() }
            // The server connects by itself, and answers before that.
            try await runner.run(
                server,
                isReady: { true },
                metrics: { [] },
                hasStarted: { await listening.wait() },
                connect: { _ in }
            )
        }
    }
}
