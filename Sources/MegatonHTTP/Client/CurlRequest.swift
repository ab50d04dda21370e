internal import CCurl
internal import Foundation
internal import FoundationNetworking

/// One libcurl request and its response. Used on curl's thread only.
final class CurlRequest {
    let easy: UnsafeMutableRawPointer
    let prepared: PreparedRequest
    private let configuration: DataLoader.Configuration
    /// Called with each piece of the body; returns whether to go on. Not called after the request has ended.
    private let receive: (UnsafeRawBufferPointer) -> Bool
    private let activity: ConnectionActivity
    /// The connection over which the request was sent; nil before that, and without TLS.
    private(set) var connection: ConnectionActivity.Connection?
    /// The time at which it was sent.
    private(set) var sent: ContinuousClock.Instant?

    private(set) var status = 0
    /// Header fields of the response, names in lower case.
    private(set) var headers: [String: String] = [:]
    private(set) var location: String?
    private(set) var httpVersion: String?
    /// Whether the header of the response is complete; not that of a 1xx, which another one follows.
    private(set) var hasWholeHeader = false
    private(set) var failure: ImageError?
    /// Why the last address was refused: curl itself only reports that it could not connect.
    private(set) var refusal: String?
    /// Why this process could open no connection, whatever the host; nil if it could.
    private var localFault: String?
    /// The last address for which a socket was opened.
    private var attempted: IPAddress?

    private var headerBytes = 0
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var resolveList: UnsafeMutablePointer<curl_slist>?

    /// Maximum size of all header fields of a response together, bytes.
    static let headerLimit = 64 * 1024

    /// - Parameter time: limit for the whole request.
    /// - Throws: `.unreachable` if libcurl cannot make a handle, or does not accept an option that safety depends on.
    init(
        _ prepared: PreparedRequest,
        _ configuration: DataLoader.Configuration,
        time: Duration,
        activity: ConnectionActivity,
        receive: @escaping (UnsafeRawBufferPointer) -> Bool
    ) throws(ImageError) {
        guard let easy = curl_easy_init() else {
            throw ImageError(.unreachable, "libcurl could not create a handle; the process may be out of memory.")
        }
        self.easy = easy
        self.prepared = prepared
        self.configuration = configuration
        self.receive = receive
        self.activity = activity
        setRules(time)
        setRequest()
        setCallbacks()
        guard setSafety() else {
            throw ImageError(
                .unreachable,
                "This libcurl cannot restrict protocols; 7.85 or later is needed. Update the system."
            )
        }
    }

    deinit {
        if let connection { activity.leave(connection) }
        curl_easy_cleanup(easy)
        curl_slist_free_all(headerList)
        curl_slist_free_all(resolveList)
    }

    // MARK: - Options

    private func setSafety() -> Bool {
        let protocols = prepared.ftpPort == nil ? "http,https" : "ftp"
        let results = [
            // A proxy from the environment would connect on our behalf and bypass the address policy.
            megaton_curl_setopt_string(easy, CURLOPT_PROXY, ""),
            megaton_curl_setopt_string(easy, CURLOPT_PROTOCOLS_STR, protocols),
            megaton_curl_setopt_string(easy, CURLOPT_REDIR_PROTOCOLS_STR, protocols),
            // The data connection goes to the host of the control connection, whatever address the server names.
            megaton_curl_setopt_long(easy, CURLOPT_FTP_SKIP_PASV_IP, 1),
            // Each hop is a separate request, with its own rules and credentials.
            megaton_curl_setopt_long(easy, CURLOPT_FOLLOWLOCATION, 0),
            megaton_curl_setopt_long(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1),
            megaton_curl_setopt_opensocket(easy) { context, _, address in
                guard let address, let request = CurlRequest.from(context) else { return curl_socket_t(-1) }
                return request.openSocket(address)
            },
            // A reused connection opens no socket, and another rule may have allowed it: its address is checked here.
            megaton_curl_setopt_prereq(easy) { context, address, _, port, localPort in
                guard let address, let request = CurlRequest.from(context),
                    request.mayUse(String(cString: address), port: Int(port))
                else { return CURL_PREREQFUNC_ABORT }
                request.willBeSent(localPort: Int(localPort))
                return CURL_PREREQFUNC_OK
            },
        ]
        return results.allSatisfy { $0 == CURLE_OK }
    }

    private func setRules(_ time: Duration) {
        megaton_curl_setopt_long(easy, CURLOPT_NOSIGNAL, 1)
        megaton_curl_setopt_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // Over TLS the handshake shows whether a connection can be multiplexed (HTTP/2), which is worth waiting for.
        // Over plain HTTP only a whole response would show it, and requests to an origin would run one after the other.
        megaton_curl_setopt_long(easy, CURLOPT_PIPEWAIT, isTLS ? 1 : 0)
        if isTLS { setReuse(false) }
        if let origin, activity.isSilent(origin) { avoidOpenConnections() }
        megaton_curl_setopt_long(easy, CURLOPT_CONNECTTIMEOUT_MS, configuration.connectTimeout.wholeMilliseconds)
        megaton_curl_setopt_long(easy, CURLOPT_TIMEOUT_MS, max(0, time.wholeMilliseconds) + 1)
        megaton_curl_setopt_long(easy, CURLOPT_LOW_SPEED_LIMIT, configuration.lowSpeedLimit)
        megaton_curl_setopt_long(
            easy,
            CURLOPT_LOW_SPEED_TIME,
            max(1, configuration.lowSpeedTime.wholeMilliseconds / 1000)
        )
        // Each transfer has one, also those that wait for a slow host.
        megaton_curl_setopt_long(easy, CURLOPT_BUFFERSIZE, 128 * 1024)
        if let file = configuration.caFile { megaton_curl_setopt_string(easy, CURLOPT_CAINFO, file) }
        if let parts = prepared.parts {
            let addresses = configuration.resolve(parts.host).joined(separator: ",")
            guard !addresses.isEmpty else { return }
            resolveList = curl_slist_append(nil, "\(parts.host):\(parts.port):\(addresses)")
            if let resolveList { megaton_curl_setopt_pointer(easy, CURLOPT_RESOLVE, resolveList) }
        }
    }

    private var isTLS: Bool { prepared.request.url?.scheme?.lowercased() == "https" }

    /// Host and port of a request over TLS, which may share a connection with others.
    var origin: String? { isTLS ? prepared.parts.map { "\($0.host):\($0.port)" } : nil }

    /// Whether the connection may be used again once its last request has ended. It may not before a response has
    /// begun: libcurl keeps a connection of HTTP/2 also if its last request has timed out.
    func setReuse(_ isAllowed: Bool) { megaton_curl_setopt_long(easy, CURLOPT_FORBID_REUSE, isAllowed ? 0 : 1) }

    /// Opens a connection for this request, unless it has one already.
    func avoidOpenConnections() { megaton_curl_setopt_long(easy, CURLOPT_FRESH_CONNECT, 1) }

    private func setRequest() {
        megaton_curl_setopt_string(easy, CURLOPT_URL, prepared.request.url?.absoluteString)
        if prepared.ftpPort != nil {
            if let login = prepared.ftpLogin {
                megaton_curl_setopt_string(easy, CURLOPT_USERNAME, login.user)
                megaton_curl_setopt_string(easy, CURLOPT_PASSWORD, login.password.value)
            }
            return
        }
        megaton_curl_setopt_string(easy, CURLOPT_USERAGENT, configuration.userAgent)
        for (name, value) in prepared.request.allHTTPHeaderFields ?? [:] {
            // A semicolon in place of the colon makes curl send a field without a value instead of leaving it out.
            headerList = curl_slist_append(headerList, value.isEmpty ? "\(name);" : "\(name): \(value)")
        }
        if let headerList { megaton_curl_setopt_pointer(easy, CURLOPT_HTTPHEADER, headerList) }
        let method = prepared.request.httpMethod?.uppercased() ?? "GET"
        if let body = prepared.request.httpBody {
            megaton_curl_setopt_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count))
            body.withUnsafeBytes { bytes in
                // curl copies the body.
                let start = UnsafeMutableRawPointer(mutating: bytes.baseAddress)
                _ = megaton_curl_setopt_pointer(easy, CURLOPT_COPYPOSTFIELDS, start)
            }
            megaton_curl_setopt_string(easy, CURLOPT_CUSTOMREQUEST, method)
        } else if method == "HEAD" {
            megaton_curl_setopt_long(easy, CURLOPT_NOBODY, 1)
        } else if method != "GET" {
            megaton_curl_setopt_string(easy, CURLOPT_CUSTOMREQUEST, method)
        }
        guard let signature = prepared.signature else { return }
        megaton_curl_setopt_string(easy, CURLOPT_AWS_SIGV4, signature.provider)
        megaton_curl_setopt_string(easy, CURLOPT_USERNAME, signature.keyID)
        megaton_curl_setopt_string(easy, CURLOPT_PASSWORD, signature.secret.value)
    }

    private func setCallbacks() {
        // Unretained: this object owns the handle and frees it in `deinit`.
        let context = Unmanaged.passUnretained(self).toOpaque()
        megaton_curl_setopt_pointer(easy, CURLOPT_WRITEDATA, context)
        megaton_curl_setopt_data_callback(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let request = CurlRequest.from(context) else { return 0 }
            let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
            request.connection?.lastByte = .now
            return request.receive(piece) ? size * count : 0
        }
        megaton_curl_setopt_pointer(easy, CURLOPT_HEADERDATA, context)
        megaton_curl_setopt_data_callback(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let request = CurlRequest.from(context) else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return request.receiveHeader(line) ? size * count : 0
        }
        megaton_curl_setopt_pointer(easy, CURLOPT_OPENSOCKETDATA, context)
        megaton_curl_setopt_pointer(easy, CURLOPT_PREREQDATA, context)
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> CurlRequest? {
        context.map { Unmanaged<CurlRequest>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: - Callbacks

    /// Checks the address after DNS, for each hop. The returned socket connects to this address and no other.
    private func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        guard let (ip, port) = Self.endpoint(address) else {
            if attempted == nil { refusal = "it is neither an IPv4 nor an IPv6 address" }
            return curl_socket_t(-1)
        }
        if !prepared.isTrusted,
            let validationError = configuration.addressPolicy.validationError(
                address: ip,
                port: prepared.ftpPort ?? port
            )
        {
            // One that is allowed may have been tried already, and that is the error then.
            if attempted == nil { refusal = validationError }
            return curl_socket_t(-1)
        }
        attempted = ip
        // One of several addresses is allowed: if it cannot be reached, that is the error, not the refusal of the
        // others.
        (refusal, localFault) = (nil, nil)
        let kind = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.pointee.family, kind, address.pointee.protocol)
        if descriptor < 0 { localFault = Self.localFault(errno) }
        return descriptor
    }

    /// A description of an error of socket(2) that is of this process or machine, and not of the host; nil for others.
    static func localFault(_ code: Int32) -> String? {
        let text = String(cString: strerror(code))
        switch code {
        case EMFILE, ENFILE:
            return "\(text). Raise its limit of open files (ulimit -n, or LimitNOFILE of the unit), or lower its "
                + "concurrency"
        case ENOBUFS, ENOMEM: return text
        default: return nil
        }
    }

    /// Why this process, and not the host, is to blame for a failure; nil if it is not known to be.
    func fault(_ result: CURLcode) -> String? {
        switch result {
        case CURLE_COULDNT_CONNECT: return localFault
        // The resolver and the TLS library open files too, and do not name the error.
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CONNECT_ERROR, CURLE_FAILED_INIT:
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            if descriptor < 0 { return Self.localFault(errno) }
            close(descriptor)
            return nil
        default: return nil
        }
    }

    /// Whether the request may use an open connection to this address.
    private func mayUse(_ address: String, port: Int) -> Bool {
        if prepared.isTrusted { return true }
        guard let ip = IPAddress(address) else {
            refusal = "it is neither an IPv4 nor an IPv6 address"
            return false
        }
        refusal = configuration.addressPolicy.validationError(address: ip, port: prepared.ftpPort ?? port)
        return refusal == nil
    }

    private func willBeSent(localPort: Int) {
        if let connection { activity.leave(connection) }
        connection = origin.map { activity.use($0, localPort: localPort) }
        sent = .now
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
        if let connection {
            connection.lastByte = .now
            if headerBytes == 0 && !connection.isSilent { setReuse(true) }
        }
        headerBytes += line.count
        guard headerBytes <= Self.headerLimit else {
            let url = prepared.request.url?.redacted ?? ""
            failure = ImageError(
                LoadLimit.headerSize.code,
                "\(url) sent more than \(Self.headerLimit) bytes of header."
            )
            return false
        }
        // Replies of an FTP server are not header fields.
        if prepared.ftpPort != nil { return true }
        let text = Self.trimmed(Self.text(line)[...])
        if text.hasPrefix("HTTP/") {
            // A new response: the previous one was 1xx.
            headers = [:]
            location = nil
            status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            httpVersion = text.split(separator: " ").first.map { String($0.dropFirst("HTTP/".count)) }
        } else if text.isEmpty {
            hasWholeHeader = status >= 200
        } else if let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) {
            let name = text[..<colon].lowercased()
            let value = String(Self.trimmed(text[text.utf8.index(after: colon)...]))
            headers[name] = headers[name].map { "\($0), \(value)" } ?? value
            if name == "location", location == nil { location = Self.location(line, value) }
        }
        return true
    }

    /// Decodes bytes that are not UTF-8 as Latin-1, the historical encoding of header fields (RFC 9110 section 5.5).
    private static func text(_ line: UnsafeRawBufferPointer) -> String {
        String(validating: line, as: UTF8.self) ?? String(String.UnicodeScalarView(line.map { Unicode.Scalar($0) }))
    }

    /// Percent-encodes the bytes of a location that is not UTF-8: they are the path, whatever their character set (RFC
    /// 3986 section 2.5).
    private static func location(_ line: UnsafeRawBufferPointer, _ value: String) -> String {
        if String(validating: line, as: UTF8.self) != nil { return value }
        // Latin-1: each scalar is one byte.
        return value.unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.isASCII {
                text.unicodeScalars.append(scalar)
            } else {
                text += HexDigits.percentEncoded(UInt8(scalar.value))
            }
        }
    }

    /// Removes the whitespace around a field value (RFC 9110 section 5.6.3) and the end of the line.
    private static func trimmed(_ text: Substring) -> Substring {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
        let bytes = text.utf8.drop(while: isBlank)
        let end = bytes.lastIndex { !isBlank($0) }.map { bytes.index(after: $0) } ?? bytes.startIndex
        return Substring(bytes[..<end])
    }

    // MARK: - The outcome

    /// CURLE_TOO_LARGE, which the headers of older libcurl versions lack.
    private static let tooLarge = CURLcode(rawValue: 100)

    /// Why libcurl could not read a response; nil if the request failed for another reason.
    func reasonUnreadable(_ result: CURLcode) -> String? {
        switch result {
        case CURLE_WEIRD_SERVER_REPLY: "sent a response that is not HTTP"
        case CURLE_BAD_CONTENT_ENCODING: "answered with an unknown Transfer-Encoding"
        // Concerns the HTTP version of the response: requests for other schemes are refused earlier.
        case CURLE_UNSUPPORTED_PROTOCOL where wasConnected: "sent a response that is not HTTP/1.0, 1.1 or 2"
        // libcurl's own limits on one line and on the number of fields.
        case CURLE_OUT_OF_MEMORY where wasConnected, Self.tooLarge where wasConnected:
            "sent a header that is too long for libcurl"
        default: nil
        }
    }

    /// Whether `Content-Length` does not determine the end of the body (RFC 9110 section 8.6): it is no number, too
    /// large, or has several different values. libcurl then reads until the connection closes, or chooses one of the
    /// values.
    var hasInvalidLength: Bool {
        guard let value = headers["content-length"], headers["transfer-encoding"] == nil, status != 304,
            prepared.request.httpMethod?.uppercased() != "HEAD"
        else { return false }
        let lengths = HTTPFieldList.elements(value).map { ContentRange.number($0) }
        return lengths.isEmpty || lengths.contains { $0 == nil || $0 != lengths[0] }
    }

    /// Adds the timings of this request.
    func add(to timings: inout LoadTimings) {
        var last = 0.0
        /// Seconds of one phase. libcurl counts all times in microseconds from the start of the request, 0 for a
        /// skipped phase.
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
        // Without a connection libcurl knows no address: it is that of the last attempt.
        let reached = address.map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        timings.addHop(reached ?? attempted?.description)
        var connects = 0
        megaton_curl_getinfo_long(easy, CURLINFO_NUM_CONNECTS, &connects)
        timings.connects += connects
        timings.effectiveURL = prepared.request.url?.redacted
    }

    /// Whether a connection was established, TLS included, and the request could be sent.
    var wasConnected: Bool { offset(CURLINFO_PRETRANSFER_TIME_T) > 0 }

    /// Announced size of the body in bytes, also over FTP; nil if the server announced none.
    var announcedLength: Int? {
        var value: curl_off_t = -1
        megaton_curl_getinfo_offset(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &value)
        return value >= 0 ? Int(value) : nil
    }

    /// Seconds since the request began.
    var elapsed: Double { offset(CURLINFO_TOTAL_TIME_T) }

    private func offset(_ info: CURLINFO) -> Double {
        var value: curl_off_t = 0
        megaton_curl_getinfo_offset(easy, info, &value)
        return Double(value) / 1e6
    }
}
