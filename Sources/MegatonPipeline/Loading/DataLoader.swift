public import Foundation
public import FoundationNetworking

/// Loads `http:` and `https:` with libcurl: keep-alive and HTTP/2 multiplexing over one own thread.
public final class DataLoader: DataLoading {
    /// Limits and rules of a loader.
    public struct Configuration: Sendable {
        /// Which addresses may be connected to.
        public var addressPolicy = AddressPolicy()
        /// Bytes of a body, counted while it streams.
        public var maximumBodySize = 64 * 1024 * 1024
        /// Until the connection stands, TLS included.
        public var connectTimeout: Duration = .seconds(5)
        /// For everything, redirects included.
        public var timeout: Duration = .seconds(20)
        /// Bytes a second; slower than that for `lowSpeedTime` ends the load.
        public var lowSpeedLimit = 1024
        public var lowSpeedTime: Duration = .seconds(10)
        /// Each hop is checked like the first request.
        public var maximumRedirects = 5
        public var userAgent = "megaton"

        public init() {}
    }

    public let configuration: Configuration
    private let multi: CurlMulti

    public init(_ configuration: Configuration = Configuration()) {
        self.configuration = configuration
        multi = CurlMulti()
    }

    deinit { multi.stop() }

    /// Statuses other than 2xx end with an error: `.notFound`, `.accessDenied` or `.httpStatus`. 304 is no error where the
    /// request was conditional: it comes as empty data, with the response.
    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let transfer = CurlTransfer(
            request: request,
            configuration: configuration,
            didReceiveData: didReceiveData,
            completion: completion
        )
        multi.start(transfer)
        return transfer
    }
}
