internal import CCurl
internal import Foundation
internal import FoundationNetworking
import Synchronization

/// One request of libcurl, with its redirects.
///
/// `Sendable` without checking: all but `isCancelled` and `isFinished` (atomics) is touched only on curl's thread, and
/// `wakeUp` is set once before the transfer gets there.
final class CurlTransfer: Cancellable, @unchecked Sendable {
    private let request: URLRequest
    private let configuration: DataLoader.Configuration
    private let didReceiveData: @Sendable (Data, URLResponse) -> Void
    private let completion: @Sendable ((any Error)?) -> Void

    private let cancelled = Atomic(false)
    private let finished = Atomic(false)
    var wakeUp: @Sendable () -> Void = {}

    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var headers: [String: String] = [:]
    private var headerBytes = 0
    private var status = 0
    private var response: HTTPURLResponse?
    private var received = 0
    private var failure: ImagePipeline.Error?
    /// Why the last address was refused: curl then only says that it could not connect.
    private var refusal: String?

    /// An origin's header fields together, bytes.
    private static let headerLimit = 64 * 1024

    init(
        request: URLRequest,
        configuration: DataLoader.Configuration,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) {
        self.request = request
        self.configuration = configuration
        self.didReceiveData = didReceiveData
        self.completion = completion
    }

    var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func cancel() {
        cancelled.store(true, ordering: .releasing)
        finished.store(true, ordering: .releasing)
        wakeUp()
    }

    /// Tells the caller, once.
    func finish(_ error: ImagePipeline.Error?) {
        guard !finished.exchange(true, ordering: .acquiringAndReleasing) else { return }
        completion(error)
    }

    func releaseLists() {
        curl_slist_free_all(headerList)
        headerList = nil
    }

    private var target: String { request.url?.absoluteString ?? "" }

    // MARK: - Options

    /// - Returns: false where libcurl does not take an option that safety hangs on.
    func configure(_ easy: UnsafeMutableRawPointer) -> Bool {
        // The handle only borrows this object: `CurlMulti.transfers` holds it for as long as the handle lives.
        let context = Unmanaged.passUnretained(self).toOpaque()
        megaton_curl_setopt_string(easy, CURLOPT_URL, target)
        megaton_curl_setopt_long(easy, CURLOPT_NOSIGNAL, 1)
        megaton_curl_setopt_string(easy, CURLOPT_USERAGENT, configuration.userAgent)
        // A proxy from the environment would connect in our place, past the address policy.
        var safety = [megaton_curl_setopt_string(easy, CURLOPT_PROXY, "")]
        safety.append(megaton_curl_setopt_string(easy, CURLOPT_PROTOCOLS_STR, "http,https"))
        safety.append(megaton_curl_setopt_string(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https"))
        megaton_curl_setopt_long(easy, CURLOPT_FOLLOWLOCATION, 1)
        megaton_curl_setopt_long(easy, CURLOPT_MAXREDIRS, configuration.maximumRedirects)
        megaton_curl_setopt_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // Over TLS the handshake tells whether a connection can be shared (HTTP/2): worth the wait. In plain HTTP only a
        // whole answer would tell, and requests would go to an origin one after the other.
        let isTLS = request.url?.scheme?.lowercased() == "https"
        megaton_curl_setopt_long(easy, CURLOPT_PIPEWAIT, isTLS ? 1 : 0)
        megaton_curl_setopt_long(easy, CURLOPT_CONNECTTIMEOUT_MS, configuration.connectTimeout.wholeMilliseconds)
        megaton_curl_setopt_long(easy, CURLOPT_TIMEOUT_MS, configuration.timeout.wholeMilliseconds)
        megaton_curl_setopt_long(easy, CURLOPT_LOW_SPEED_LIMIT, configuration.lowSpeedLimit)
        megaton_curl_setopt_long(
            easy,
            CURLOPT_LOW_SPEED_TIME,
            max(1, configuration.lowSpeedTime.wholeMilliseconds / 1000)
        )
        megaton_curl_setopt_long(easy, CURLOPT_BUFFERSIZE, 256 * 1024)
        for (name, value) in request.allHTTPHeaderFields ?? [:] {
            headerList = curl_slist_append(headerList, "\(name): \(value)")
        }
        if let headerList { megaton_curl_setopt_pointer(easy, CURLOPT_HTTPHEADER, headerList) }

        megaton_curl_setopt_pointer(easy, CURLOPT_WRITEDATA, context)
        megaton_curl_setopt_data_callback(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let transfer = CurlTransfer.from(context) else { return 0 }
            return transfer.receive(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : 0
        }
        megaton_curl_setopt_pointer(easy, CURLOPT_HEADERDATA, context)
        megaton_curl_setopt_data_callback(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let transfer = CurlTransfer.from(context) else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return transfer.receiveHeader(line) ? size * count : 0
        }
        megaton_curl_setopt_pointer(easy, CURLOPT_OPENSOCKETDATA, context)
        safety.append(
            megaton_curl_setopt_opensocket(easy) { context, _, address in
                guard let address, let transfer = CurlTransfer.from(context) else { return curl_socket_t(-1) }
                return transfer.openSocket(address)
            }
        )
        return safety.allSatisfy { $0 == CURLE_OK }
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> CurlTransfer? {
        context.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: - Callbacks

    /// The address is looked at here, after DNS and for each hop, and the very socket that was looked at connects.
    private func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        let family = address.pointee.family
        let found: (IPAddress, Int)? = withUnsafePointer(to: &address.pointee.addr) { generic in
            switch family {
            case AF_INET:
                return generic.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { v4 in
                    let bytes = withUnsafeBytes(of: v4.pointee.sin_addr) { Array($0) }
                    return (IPAddress(bytes: bytes), Int(UInt16(bigEndian: v4.pointee.sin_port)))
                }
            case AF_INET6:
                return UnsafeRawPointer(generic).withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { v6 in
                    let bytes = withUnsafeBytes(of: v6.pointee.sin6_addr) { Array($0) }
                    return (IPAddress(bytes: bytes), Int(UInt16(bigEndian: v6.pointee.sin6_port)))
                }
            default: return nil
            }
        }
        guard let (ip, port) = found else {
            refusal = "it is neither an IPv4 nor an IPv6 address"
            return curl_socket_t(-1)
        }
        if let complaint = configuration.addressPolicy.complaint(address: ip, port: port) {
            refusal = complaint
            return curl_socket_t(-1)
        }
        // One of several addresses is allowed: if it does not answer, that is the reason and not the others.
        refusal = nil
        return socket(family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue), address.pointee.protocol)
    }

    private func receiveHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        headerBytes += line.count
        guard headerBytes <= Self.headerLimit else {
            failure = ImagePipeline.Error(
                .dataTooLarge,
                "\(target) sent more than \(Self.headerLimit) bytes of header."
            )
            return false
        }
        let text = String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        if text.hasPrefix("HTTP/") {
            // A new answer: the one before it was a redirect or 1xx.
            headers = [:]
            status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        } else if let colon = text.firstIndex(of: ":") {
            let name = text[..<colon].lowercased()
            let value = text[text.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            headers[name] = headers[name].map { "\($0), \(value)" } ?? value
        }
        return true
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        // The body of an error page is of no use; it is read to keep the connection, within the limit below.
        guard (200..<300).contains(status) else {
            received += bytes.count
            return received <= Self.headerLimit
        }
        if response == nil, let url = request.url {
            response = HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: headers)
            if let length = headers["content-length"].flatMap({ Int($0) }), length > configuration.maximumBodySize {
                return refuseSize("announces \(length) bytes")
            }
        }
        received += bytes.count
        guard received <= configuration.maximumBodySize else { return refuseSize("sends more") }
        guard let response, !finished.load(ordering: .acquiring) else { return false }
        didReceiveData(Data(bytes), response)
        return true
    }

    private func refuseSize(_ what: String) -> Bool {
        failure = ImagePipeline.Error(
            .dataTooLarge,
            "\(target) \(what) than the limit of \(configuration.maximumBodySize) bytes."
        )
        return false
    }

    // MARK: - The outcome

    func error(for result: CURLcode, _ easy: UnsafeMutableRawPointer) -> ImagePipeline.Error? {
        if let failure { return failure }
        let isAnswer = (200..<300).contains(status) || (status == 304 && request.isConditional)
        if status > 0, !isAnswer, result == CURLE_OK || result == CURLE_WRITE_ERROR {
            return HTTPStatusError.error(status: status, headers: headers, url: target)
        }
        if result == CURLE_OK {
            // An empty body, as of 304, calls no write callback; the caller is told of it as empty data, with the response.
            if response == nil, let url = request.url,
                let empty = HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: headers)
            {
                didReceiveData(Data(), empty)
            }
            return nil
        }
        if let refusal, result == CURLE_COULDNT_CONNECT {
            return ImagePipeline.Error(.forbidden, "\(target) is not fetched: \(refusal).")
        }
        let text = String(cString: curl_easy_strerror(result))
        return ImagePipeline.Error(Self.code(of: result), "\(target) could not be fetched: \(text).")
    }

    private static func code(of result: CURLcode) -> ImagePipeline.Error.Code {
        switch result {
        case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL: .invalidURL
        case CURLE_OPERATION_TIMEDOUT: .timedOut
        case CURLE_TOO_MANY_REDIRECTS: .tooManyRedirects
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
            CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR:
            .tls
        case CURLE_PARTIAL_FILE, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_HTTP2, CURLE_HTTP2_STREAM,
            CURLE_WEIRD_SERVER_REPLY, CURLE_SEND_ERROR:
            .incompleteBody
        default: .unreachable
        }
    }
}
