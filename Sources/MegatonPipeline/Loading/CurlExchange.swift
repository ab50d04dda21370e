internal import CCurl
internal import Foundation
internal import FoundationNetworking

/// One request of libcurl and its answer. Lives on curl's thread.
final class CurlExchange {
    let easy: UnsafeMutableRawPointer
    let hop: Hop
    private let configuration: DataLoader.Configuration
    /// Told of each piece of the body; says whether to go on. Not called after the exchange has ended.
    private let receive: (UnsafeRawBufferPointer) -> Bool

    private(set) var status = 0
    /// By their names in lower case.
    private(set) var headers: [String: String] = [:]
    private(set) var location: String?
    private(set) var httpVersion: String?
    private(set) var failure: ImagePipeline.Error?
    /// Why the last address was refused: curl then only says that it could not connect.
    private(set) var refusal: String?

    private var headerBytes = 0
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var resolveList: UnsafeMutablePointer<curl_slist>?

    /// An origin's header fields together, bytes.
    static let headerLimit = 64 * 1024

    /// - Parameter time: for the whole exchange.
    /// - Throws: where libcurl does not take an option that safety hangs on.
    init(
        _ hop: Hop,
        _ configuration: DataLoader.Configuration,
        time: Duration,
        receive: @escaping (UnsafeRawBufferPointer) -> Bool
    ) throws(ImagePipeline.Error) {
        guard let easy = curl_easy_init() else {
            throw ImagePipeline.Error(.unreachable, "libcurl could not make a handle: out of memory?")
        }
        self.easy = easy
        self.hop = hop
        self.configuration = configuration
        self.receive = receive
        setRules(time)
        setRequest()
        setCallbacks()
        guard setSafety() else {
            throw ImagePipeline.Error(.unreachable, "This libcurl cannot be told which protocols are safe; 7.85 can.")
        }
    }

    deinit {
        curl_easy_cleanup(easy)
        curl_slist_free_all(headerList)
        curl_slist_free_all(resolveList)
    }

    // MARK: - Options

    private func setSafety() -> Bool {
        let protocols = hop.ftpPort == nil ? "http,https" : "ftp"
        let results = [
            // A proxy from the environment would connect in our place, past the address policy.
            megaton_curl_setopt_string(easy, CURLOPT_PROXY, ""),
            megaton_curl_setopt_string(easy, CURLOPT_PROTOCOLS_STR, protocols),
            megaton_curl_setopt_string(easy, CURLOPT_REDIR_PROTOCOLS_STR, protocols),
            // Data come from where the control connection goes to, whatever the server says.
            megaton_curl_setopt_long(easy, CURLOPT_FTP_SKIP_PASV_IP, 1),
            // Each hop is a request of its own here, with its own rules and credentials.
            megaton_curl_setopt_long(easy, CURLOPT_FOLLOWLOCATION, 0),
            megaton_curl_setopt_long(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1),
            megaton_curl_setopt_opensocket(easy) { context, _, address in
                guard let address, let exchange = CurlExchange.from(context) else { return curl_socket_t(-1) }
                return exchange.openSocket(address)
            },
            // No socket is opened where a connection is used again, which may be one that was allowed for another reason.
            megaton_curl_setopt_prereq(easy) { context, address, _, port, _ in
                guard let address, let exchange = CurlExchange.from(context),
                    exchange.mayUse(String(cString: address), port: Int(port))
                else { return CURL_PREREQFUNC_ABORT }
                return CURL_PREREQFUNC_OK
            },
        ]
        return results.allSatisfy { $0 == CURLE_OK }
    }

    private func setRules(_ time: Duration) {
        megaton_curl_setopt_long(easy, CURLOPT_NOSIGNAL, 1)
        megaton_curl_setopt_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // Over TLS the handshake tells whether a connection can be shared (HTTP/2): worth the wait. In plain HTTP only a
        // whole answer would tell, and requests would go to an origin one after the other.
        let isTLS = hop.request.url?.scheme?.lowercased() == "https"
        megaton_curl_setopt_long(easy, CURLOPT_PIPEWAIT, isTLS ? 1 : 0)
        megaton_curl_setopt_long(easy, CURLOPT_CONNECTTIMEOUT_MS, configuration.connectTimeout.wholeMilliseconds)
        megaton_curl_setopt_long(easy, CURLOPT_TIMEOUT_MS, max(0, time.wholeMilliseconds) + 1)
        megaton_curl_setopt_long(easy, CURLOPT_LOW_SPEED_LIMIT, configuration.lowSpeedLimit)
        megaton_curl_setopt_long(
            easy,
            CURLOPT_LOW_SPEED_TIME,
            max(1, configuration.lowSpeedTime.wholeMilliseconds / 1000)
        )
        megaton_curl_setopt_long(easy, CURLOPT_BUFFERSIZE, 256 * 1024)
        if let file = configuration.caFile { megaton_curl_setopt_string(easy, CURLOPT_CAINFO, file) }
        if let parts = hop.parts {
            let addresses = configuration.resolve(parts.host).joined(separator: ",")
            guard !addresses.isEmpty else { return }
            resolveList = curl_slist_append(nil, "\(parts.host):\(parts.port):\(addresses)")
            if let resolveList { megaton_curl_setopt_pointer(easy, CURLOPT_RESOLVE, resolveList) }
        }
    }

    private func setRequest() {
        megaton_curl_setopt_string(easy, CURLOPT_URL, hop.request.url?.absoluteString)
        if hop.ftpPort != nil {
            if let login = hop.ftpLogin {
                megaton_curl_setopt_string(easy, CURLOPT_USERNAME, login.user)
                megaton_curl_setopt_string(easy, CURLOPT_PASSWORD, login.password.value)
            }
            return
        }
        megaton_curl_setopt_string(easy, CURLOPT_USERAGENT, configuration.userAgent)
        for (name, value) in hop.request.allHTTPHeaderFields ?? [:] {
            // A field without a value is told by a semicolon: with a colon it would be left out.
            headerList = curl_slist_append(headerList, value.isEmpty ? "\(name);" : "\(name): \(value)")
        }
        if let headerList { megaton_curl_setopt_pointer(easy, CURLOPT_HTTPHEADER, headerList) }
        let method = hop.request.httpMethod?.uppercased() ?? "GET"
        if let body = hop.request.httpBody {
            megaton_curl_setopt_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count))
            body.withUnsafeBytes { bytes in
                // Copied by curl.
                let start = UnsafeMutableRawPointer(mutating: bytes.baseAddress)
                _ = megaton_curl_setopt_pointer(easy, CURLOPT_COPYPOSTFIELDS, start)
            }
            megaton_curl_setopt_string(easy, CURLOPT_CUSTOMREQUEST, method)
        } else if method == "HEAD" {
            megaton_curl_setopt_long(easy, CURLOPT_NOBODY, 1)
        } else if method != "GET" {
            megaton_curl_setopt_string(easy, CURLOPT_CUSTOMREQUEST, method)
        }
        guard let signature = hop.signature else { return }
        megaton_curl_setopt_string(easy, CURLOPT_AWS_SIGV4, signature.provider)
        megaton_curl_setopt_string(easy, CURLOPT_USERNAME, signature.keyID)
        megaton_curl_setopt_string(easy, CURLOPT_PASSWORD, signature.secret.value)
    }

    private func setCallbacks() {
        // The handle only borrows this object, which frees the handle when it goes.
        let context = Unmanaged.passUnretained(self).toOpaque()
        megaton_curl_setopt_pointer(easy, CURLOPT_WRITEDATA, context)
        megaton_curl_setopt_data_callback(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let exchange = CurlExchange.from(context) else { return 0 }
            let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return exchange.receive(piece) ? size * count : 0
        }
        megaton_curl_setopt_pointer(easy, CURLOPT_HEADERDATA, context)
        megaton_curl_setopt_data_callback(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let exchange = CurlExchange.from(context) else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return exchange.receiveHeader(line) ? size * count : 0
        }
        megaton_curl_setopt_pointer(easy, CURLOPT_OPENSOCKETDATA, context)
        megaton_curl_setopt_pointer(easy, CURLOPT_PREREQDATA, context)
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> CurlExchange? {
        context.map { Unmanaged<CurlExchange>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: - Callbacks

    /// The address is looked at here, after DNS and for each hop, and the very socket that was looked at connects.
    private func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        guard let (ip, port) = Self.endpoint(address) else {
            refusal = "it is neither an IPv4 nor an IPv6 address"
            return curl_socket_t(-1)
        }
        if !hop.isTrusted, let complaint = configuration.addressPolicy.complaint(address: ip, port: hop.ftpPort ?? port)
        {
            refusal = complaint
            return curl_socket_t(-1)
        }
        // One of several addresses is allowed: if it does not answer, that is the reason and not the others.
        refusal = nil
        let kind = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        return socket(address.pointee.family, kind, address.pointee.protocol)
    }

    /// Whether the request may go out on a connection to this address.
    private func mayUse(_ address: String, port: Int) -> Bool {
        if hop.isTrusted { return true }
        guard let ip = IPAddress(address) else {
            refusal = "it is neither an IPv4 nor an IPv6 address"
            return false
        }
        refusal = configuration.addressPolicy.complaint(address: ip, port: hop.ftpPort ?? port)
        return refusal == nil
    }

    private static func endpoint(_ address: UnsafeMutablePointer<curl_sockaddr>) -> (IPAddress, Int)? {
        let family = address.pointee.family
        return withUnsafePointer(to: &address.pointee.addr) { generic in
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
    }

    private func receiveHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        headerBytes += line.count
        guard headerBytes <= Self.headerLimit else {
            let url = hop.request.url?.redacted ?? ""
            failure = ImagePipeline.Error(
                LoadLimit.headerSize.code,
                "\(url) sent more than \(Self.headerLimit) bytes of header."
            )
            return false
        }
        // Replies of ftp are no fields.
        if hop.ftpPort != nil { return true }
        let text = Self.trimmed(Self.text(line)[...])
        if text.hasPrefix("HTTP/") {
            // A new answer: the one before it was 1xx.
            headers = [:]
            location = nil
            status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            httpVersion = text.split(separator: " ").first.map { String($0.dropFirst("HTTP/".count)) }
        } else if let colon = text.firstIndex(of: ":") {
            let name = text[..<colon].lowercased()
            let value = String(Self.trimmed(text[text.index(after: colon)...]))
            headers[name] = headers[name].map { "\($0), \(value)" } ?? value
            if name == "location", location == nil { location = Self.location(line, value) }
        }
        return true
    }

    /// Bytes that are not UTF-8 are read as Latin-1, as header fields once were (RFC 9110 section 5.5).
    private static func text(_ line: UnsafeRawBufferPointer) -> String {
        String(validating: line, as: UTF8.self) ?? String(String.UnicodeScalarView(line.map { Unicode.Scalar($0) }))
    }

    /// A path that is no UTF-8 names its bytes, whichever characters they stand for there (RFC 3986 section 2.5).
    private static func location(_ line: UnsafeRawBufferPointer, _ value: String) -> String {
        if String(validating: line, as: UTF8.self) != nil { return value }
        // Latin-1: each scalar is one byte.
        return value.unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.isASCII {
                text.unicodeScalars.append(scalar)
            } else {
                text += percentEncoded(UInt8(scalar.value))
            }
        }
    }

    private static func percentEncoded(_ byte: UInt8) -> String {
        "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }

    /// Without what may stand around a field (RFC 9110 section 5.6.3), and the line's end.
    private static func trimmed(_ text: Substring) -> Substring {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
        let bytes = text.utf8.drop(while: isBlank)
        let end = bytes.lastIndex { !isBlank($0) }.map { bytes.index(after: $0) } ?? bytes.startIndex
        return Substring(bytes[..<end])
    }

    // MARK: - The outcome

    /// CURLE_TOO_LARGE, which the headers of older versions of libcurl do not have.
    private static let tooLarge = CURLcode(rawValue: 100)

    /// The reason why libcurl could not read an answer; nil if the exchange failed for another one.
    func complaint(_ result: CURLcode) -> String? {
        switch result {
        case CURLE_WEIRD_SERVER_REPLY: "answered what is no HTTP"
        case CURLE_BAD_CONTENT_ENCODING: "answered with an unknown Transfer-Encoding"
        // Of the answer's version: requests for other schemes are refused before they come here.
        case CURLE_UNSUPPORTED_PROTOCOL where wasConnected: "answered what is no HTTP/1.0, 1.1 or 2"
        // libcurl's own limits on one line and on the number of fields.
        case CURLE_OUT_OF_MEMORY where wasConnected, Self.tooLarge where wasConnected:
            "sent a header that is too long for libcurl"
        default: nil
        }
    }

    /// Whether `Content-Length` does not say where the body ends (RFC 9110 section 8.6): it is no number, too large a
    /// number, or there are several that differ. libcurl reads until the connection closes then, or takes one of them.
    var hasInvalidLength: Bool {
        guard let value = headers["content-length"], headers["transfer-encoding"] == nil, status != 304,
            hop.request.httpMethod?.uppercased() != "HEAD"
        else { return false }
        let lengths = HTTPFieldList.elements(value).map { ContentRange.number($0) }
        return lengths.isEmpty || lengths.contains { $0 == nil || $0 != lengths[0] }
    }

    /// Adds what this hop cost.
    func add(to timings: inout LoadTimings) {
        var last = 0.0
        /// libcurl's times all count from the start of the request, microseconds; 0 for what did not happen.
        func phase(_ info: CURLINFO) -> Double {
            let time = max(offset(info), last)
            defer { last = time }
            return time - last
        }
        timings.nameLookup += phase(CURLINFO_NAMELOOKUP_TIME_T)
        timings.connect += phase(CURLINFO_CONNECT_TIME_T)
        timings.tls += phase(CURLINFO_APPCONNECT_TIME_T)
        timings.firstByte += phase(CURLINFO_STARTTRANSFER_TIME_T)
        timings.transfer += phase(CURLINFO_TOTAL_TIME_T)
        timings.status = status > 0 ? status : nil
        timings.httpVersion = httpVersion
        var address: UnsafeMutablePointer<CChar>?
        megaton_curl_getinfo_string(easy, CURLINFO_PRIMARY_IP, &address)
        timings.remoteAddress = address.map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        var connects = 0
        megaton_curl_getinfo_long(easy, CURLINFO_NUM_CONNECTS, &connects)
        timings.connects += connects
        timings.effectiveURL = hop.request.url?.redacted
    }

    /// Whether a connection stood, TLS included, and the request was on its way.
    var wasConnected: Bool { offset(CURLINFO_PRETRANSFER_TIME_T) > 0 }

    /// Bytes of the body as they were announced, also by ftp; nil where they were not.
    var announcedLength: Int? {
        var value: curl_off_t = -1
        megaton_curl_getinfo_offset(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &value)
        return value >= 0 ? Int(value) : nil
    }

    /// Seconds since the exchange began.
    var elapsed: Double { offset(CURLINFO_TOTAL_TIME_T) }

    private func offset(_ info: CURLINFO) -> Double {
        var value: curl_off_t = 0
        megaton_curl_getinfo_offset(easy, info, &value)
        return Double(value) / 1e6
    }
}
