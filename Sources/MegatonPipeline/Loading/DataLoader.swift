public import Foundation
public import FoundationNetworking
import Synchronization

/// Loads `http:` and `https:` with libcurl, and `s3:` where the policy has it: keep-alive and HTTP/2 multiplexing over
/// one own thread.
///
/// Redirects are followed here and not in libcurl: each hop is a request of its own, checked like the first one, with
/// the credential of its own host. Where scheme, host or port change, nothing is sent on that says who asks. The
/// response has the last hop's URL.
public final class DataLoader: TimedDataLoading {
    /// Limits and rules of a loader.
    public struct Configuration: Sendable {
        /// Which URLs may be asked for, also by redirects.
        public var urlPolicy = URLPolicy()
        /// Which addresses may be connected to.
        public var addressPolicy = AddressPolicy()
        /// None by default.
        public var credentials = Credentials()
        /// AWS by default. `s3:` has to be among the policy's schemes.
        public var s3 = S3Endpoint()
        /// Bytes of a body, counted while it streams.
        public var maximumBodySize = 64 * 1024 * 1024
        /// Until the connection stands, TLS included; of each hop.
        public var connectTimeout: Duration = .seconds(5)
        /// For everything, redirects included.
        public var timeout: Duration = .seconds(20)
        /// Bytes a second; slower than that for `lowSpeedTime` ends the load.
        public var lowSpeedLimit = 1024
        public var lowSpeedTime: Duration = .seconds(10)
        /// Each hop is checked like the first request.
        public var maximumRedirects = 5
        public var userAgent = "megaton"
        /// Connections to one host, by whichever version of HTTP. As many as a pipeline fetches at a time, so that nobody
        /// waits for a connection by default, as that counts as a part of `timeout`; a browser would make 6.
        public var maximumHostConnections = 32
        /// Connections in all, those that are kept alive included.
        public var maximumConnections = 256
        /// Requests at a time over one connection of HTTP/2, where the server allows as many.
        public var maximumConcurrentStreams = 100
        /// Certificates to trust in the place of the system's: a PEM file.
        public var caFile: String?
        /// Addresses of a host, in the place of DNS; none for DNS. They are checked as those of DNS are. What is kept
        /// alive to an earlier address goes on. Called on the loader's own thread, which must not wait.
        public var resolve: @Sendable (_ host: String) -> [String] = { _ in [] }

        public init() {}
    }

    public let configuration: Configuration
    private let multi: CurlMulti
    private let validate: (@Sendable (URLResponse) -> (any Error)?)?
    /// Shared with the loads, which may outlive the loader by a moment.
    private let observer = Observer()

    public convenience init(_ configuration: Configuration = Configuration()) {
        self.init(configuration, validated: nil)
    }

    /// - Parameter validate: tells what is wrong with a response, in the place of the rules of
    ///   ``loadData(with:didReceiveData:didCollect:completion:)``. Not asked about redirects, nor about 304 to a
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

    /// Told of each load; held strongly.
    public var delegate: (any Delegate)? {
        get { observer.delegate.withLock { $0 } }
        set { observer.delegate.withLock { $0 = newValue } }
    }

    /// Statuses other than 2xx end with an error: `.notFound`, `.accessDenied` or `.httpStatus`; so do 204 and 205
    /// (`.dataIsEmpty`), and 206 where no range was asked for. 304 is no error where the request was conditional: it
    /// comes as empty data, with the response.
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
