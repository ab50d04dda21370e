internal import Logging
internal import NIOCore
internal import ServiceLifecycle

/// An HTTP server that runs beside a body of code, and is shut down gracefully in any case.
///
/// A cancellation must not reach a server that still accepts connections: NIO ends the process if the server is
/// cancelled when it has just accepted one. The server therefore runs in a task of its own, stops accepting first, and
/// is cancelled only if its requests do not end in time.
struct GracefulServer: Sendable {
    /// Time from a cancellation to the end of the requests that still run. The server stops accepting meanwhile.
    static let cutOffLimit: Duration = .seconds(1)

    /// The address that errors name.
    let address: ListenAddress
    /// How long running requests may last after the end of the body.
    let drainLimit: Duration
    let logger: Logger

    /// Serves while the body runs.
    ///
    /// - Parameters:
    ///   - application: makes the server, which calls its argument with the port once it listens.
    ///   - body: receives the port, which the system may have chosen.
    /// - Throws: ``ListenError``, and the errors of the body.
    func serve<Value: Sendable>(
        _ application: (_ didStart: @escaping @Sendable (_ port: Int) -> Void) -> any Service,
        while body: @escaping @Sendable (_ port: Int) async throws -> Value
    ) async throws -> Value {
        let (started, start) = AsyncStream<Int>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let services = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: application { start.yield($0) })],
                logger: logger
            )
        )
        // Unstructured, so that no cancellation reaches it while it accepts connections. It is safe because `drain`
        // ends it in any case.
        let server = Task { () -> ListenError? in
            do {
                try await services.run()
                return nil
            } catch {
                return ListenError(address: address, reason: Listener.reason(error))
            }
        }
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                if let error = await server.value { throw error }
                return nil
            }
            group.addTask {
                for await port in started { return try await body(port) }
                throw CancellationError()  // The stream ends only with the task.
            }
            var end: Result<Value, any Error> = .failure(CancellationError())
            while let result = await group.nextResult() {
                switch result {
                case .success(nil): continue
                case .success(let value?): end = .success(value)
                case .failure(let error): end = .failure(error)
                }
                break
            }
            await services.triggerGracefulShutdown()
            await drain(server)
            // The body still waits if the server could not start.
            group.cancelAll()
            while await group.nextResult() != nil {}
            return try end.get()
        }
    }

    /// Waits for the running requests after the beginning of the shutdown; cuts them off after ``drainLimit``, or
    /// ``cutOffLimit`` after a cancellation.
    private func drain(_ server: Task<ListenError?, Never>) async {
        // Unstructured, because a cancellation must not shorten the first time. They are safe because they end by
        // themselves, and because the cancellation of a server that has ended does nothing.
        let overdue = Task {
            try await Task.sleep(for: drainLimit)
            logger.warning("requests that still run are cut off")
            server.cancel()
        }
        defer { overdue.cancel() }
        _ = await withTaskCancellationHandler {
            await server.value
        } onCancel: {
            Task {
                try await Task.sleep(for: Self.cutOffLimit)
                server.cancel()
            }
        }
    }
}
