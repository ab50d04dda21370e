package import Hummingbird
internal import HummingbirdCore
package import NIOCore

/// Context of a request to ``HTTPServer``.
package struct ServerContext: AccessRequestContext {
    package var coreContext: CoreRequestContextStorage
    package var identity: AccessTokens.Identity?
    package let remoteAddress: SocketAddress?

    package init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        remoteAddress = source.channel.remoteAddress
    }
}
