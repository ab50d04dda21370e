public import Foundation
public import FoundationNetworking
import Synchronization

/// Loads `http:` and `https:` with libcurl, and `s3:` and `ftp:` if the policy allows them: keep-alive and HTTP/2
/// multiplexing on one thread of its own.
///
/// Redirects are followed here and not in libcurl: each hop is a request of its own, checked like the first one, with
/// the credential of its own host. If scheme, host or port change, header fields that may identify the caller are
/// dropped. The response has the URL of the last hop.
public final class DataLoader: TimedDataLoading {
    /// Limits and rules of a loader.
    public struct Configuration: Sendable {
        /// URLs that may be requested, also by redirects.
        public var urlPolicy = URLPolicy()
        /// Network addresses that may be connected to.
        public var addressPolicy = AddressPolicy()
        /// Credentials by host and name; none by default.
        public var credentials = Credentials()
        /// Endpoint of `s3:` URLs, AWS by default. The policy's schemes must include `s3`.
        public var s3 = S3Endpoint()
        /// Maximum size of a body in bytes, counted while it streams.
        public var maximumBodySize = 64 * 1024 * 1024
        /// Time limit for establishing a connection, TLS included; for each hop.
        public var connectTimeout: Duration = .seconds(5)
        /// Time limit for the whole load, redirects included.
        public var timeout: Duration = .seconds(20)
        /// Minimum speed, bytes a second. A load that stays below it for `lowSpeedTime` fails.
        public var lowSpeedLimit = 1024
        /// How long a body may arrive slower than `lowSpeedLimit`.
        public var lowSpeedTime: Duration = .seconds(10)
        /// Maximum number of redirects. Each hop is checked like the first request.
        public var maximumRedirects = 5
        /// The header field User-Agent.
        public var userAgent = "megaton"
        /// Maximum connections to one host, with any version of HTTP. As many as a pipeline fetches at a time, so that
        /// by default no request waits for a connection, which would count toward `timeout`; a browser makes 6.
        public var maximumHostConnections = 32
        /// Maximum connections in all, including those kept alive.
        public var maximumConnections = 256
        /// Maximum concurrent requests on one HTTP/2 connection, if the server allows as many.
        public var maximumConcurrentStreams = 100
        /// PEM file with certificates of authorities, in place of the system's file. Those in the directory of libcurl,
        /// with Debian's `/etc/ssl/certs`, are trusted as well.
        public var caFile: String?
        /// Returns addresses of a host in place of DNS; an empty array for DNS. They are checked like those from DNS.
        /// Connections kept alive to earlier addresses stay in use. Called on the loader's own thread, which must not
        /// block.
        public var resolve: @Sendable (_ host: String) -> [String] = { _ in [] }

        /// Creates the default configuration.
        public init() {}
    }

    /// The options of the loader.
    public let configuration: Configuration
    private let multi: CurlMulti
    private let validate: (@Sendable (URLResponse) -> (any Error)?)?
    /// Shared with the loads, which may outlive the loader briefly.
    private let observer = Observer()

    /// Creates a loader.
    public convenience init(_ configuration: Configuration = Configuration()) {
        self.init(configuration, validated: nil)
    }

    /// - Parameter validate: returns the error for an invalid response, in place of the rules of
    ///   ``loadData(with:didReceiveData:didCollect:completion:)``. Not called for redirects, nor for a 304 to a
    ///   conditional request.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        validate: @escaping @Sendable (URLResponse) -> (any Error)?
    ) {
        self.init(configuration, validated: validate)
    }

    private init(_ configuration: Configuration, validated validate: (@Sendable (URLResponse) -> (any Error)?)?) {
        self.configuration = configuration
        self.validate = validate
        multi = CurlMulti(configuration)
    }

    deinit { multi.stop() }

    /// Notified of each load; held strongly.
    public var delegate: (any Delegate)? {
        get { observer.delegate.withLock { $0 } }
        set { observer.delegate.withLock { $0 = newValue } }
    }

    /// Statuses other than 2xx end with an error: `.notFound`, `.accessDenied` or `.httpStatus`. So do 204 and 205 to a
    /// GET (`.dataIsEmpty`), and 206 if no range was requested. A 304 to a conditional request is a success: empty
    /// data, with the response.
    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let transfer = CurlTransfer(
            request: request,
            configuration: configuration,
            validate: validate,
            listener: .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
        ) { [observer] transfer, timings, error in
            let delegate = observer.delegate.withLock { $0 }
            if let delegate, let url = transfer.request.url {
                delegate.loadDidEnd(url, timings: timings, error: error)
            }
        }
        multi.start(transfer)
        return transfer
    }

    private final class Observer: Sendable {
        let delegate = Mutex<(any Delegate)?>(nil)
    }
}

extension DataLoader {
    /// Observes the loads of a loader, for logs and metrics.
    ///
    /// Called on the loader's own thread, which must not block: hand over work that takes time.
    public protocol Delegate: Sendable {
        /// Called when a load has ended, before its completion; also for cancelled loads (`.cancelled`).
        ///
        /// - Parameters:
        ///   - url: the requested URL. It may carry a signature; `timings.effectiveURL` has none.
        ///   - error: nil if the load succeeded.
        func loadDidEnd(_ url: URL, timings: LoadTimings, error: (any Error)?)
    }
}

/// A loader whose limits decide whether a load fails.
package protocol LoadLimitDeclaring: Sendable {
    /// Nil if they are unknown.
    var loadLimits: DataLoader.Configuration? { get }
}

extension DataLoader: LoadLimitDeclaring {
    package var loadLimits: DataLoader.Configuration? { configuration }
}
