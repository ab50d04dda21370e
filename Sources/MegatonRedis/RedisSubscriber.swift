package import Logging
internal import MegatonCore
package import NIOCore

/// A connection that subscribes to channels and is reopened after a failure.
///
/// Messages published while it is down are lost, because pub/sub of Redis has no delivery guarantee. A caller that
/// relies on messages must check the state when `onSubscribed` is called, and poll at intervals besides.
package final class RedisSubscriber: Sendable {
    private let connect: @Sendable () async throws(RedisError) -> RedisConnection
    private let channels: [String]
    private let logger: Logger
    private let onSubscribed: @Sendable () -> Void
    private let onMessage: @Sendable (_ channel: String, _ message: String) -> Void

    /// - Parameters:
    ///   - configuration: in a cluster any node is subscribed to, because each receives the messages of all.
    ///   - onSubscribed: called each time all channels are subscribed.
    ///   - onMessage: called on an event loop; must not block.
    package init(
        _ configuration: RedisConfiguration,
        channels: [String],
        group: any EventLoopGroup,
        logger: Logger,
        onSubscribed: @escaping @Sendable () -> Void,
        onMessage: @escaping @Sendable (_ channel: String, _ message: String) -> Void
    ) {
        let name = "megaton:subscriber"
        switch configuration.address {
        case .tcp, .unix, .sentinel:
            let connector = RedisConnector(configuration, name: name, group: group)
            connect = { () async throws(RedisError) in try await connector.connect() }
        case .cluster:
            let discovery = ClusterDiscovery(configuration, name: name, group: group)
            connect = { () async throws(RedisError) in try await discovery.ask().connection }
        }
        self.channels = channels
        self.logger = logger
        self.onSubscribed = onSubscribed
        self.onMessage = onMessage
    }

    /// Listens until the task is cancelled.
    package func run() async {
        var backoff = Backoff()
        await repeating {
            do {
                try await listen { backoff.reset() }
                return backoff.next(after: nil)
            } catch is CancellationError {
                return nil
            } catch {
                logger.debug("a subscription ended; subscribing again", metadata: ["error": "\(error)"])
                return backoff.next(after: error)
            }
        }
    }

    private func listen(onConnected: () -> Void) async throws {
        let connection = try await connect()
        let expected = channels.count
        let (onMessage, onSubscribed) = (onMessage, onSubscribed)
        try await withTaskCancellationHandler {
            try await connection.subscribe(to: channels) { [logger] push in
                if case .error(let text) = push.first {
                    // E.g. the ACL does not permit the channels. Close it: a connection that receives nothing would go
                    // unnoticed.
                    logger.warning("Redis refused a subscription", metadata: ["error": "\(text)"])
                    connection.close()
                    return
                }
                switch push.first?.string {
                case "message" where push.count == 3:
                    onMessage(push[1].string ?? "", push[2].string ?? "")
                case "subscribe" where push.count == 3 && push[2].int == expected:
                    onSubscribed()
                default: break
                }
            }
            onConnected()
            await connection.waitForClose()
        } onCancel: {
            connection.close()
        }
    }
}
