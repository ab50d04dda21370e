internal import CCurl
internal import Foundation
internal import FoundationNetworking
import Synchronization

/// One load: its request, and the requests that redirects lead to.
///
/// `@unchecked Sendable`: everything but `cancelled` (an atomic) and `gate` is used on curl's thread only, and `wakeUp`
/// and `didBuffer` are set once before the transfer reaches that thread.
final class CurlTransfer: Cancellable, @unchecked Sendable {
    /// Closures of the caller.
    struct Listener: Sendable {
        let didReceiveData: @Sendable (Data, URLResponse) -> Void
        /// Called before `completion`, and with the first bytes of a longer body.
        let didCollect: @Sendable (LoadTimings) -> Void
        let completion: @Sendable ((any Error)?) -> Void
    }

    /// The next step after a request has ended.
    enum Step {
        case next
        case finished((any Error)?)
    }

    let request: URLRequest
    let isFTP: Bool
    private let configuration: DataLoader.Configuration
    /// Replaces `ResponseRules` if set.
    private let validate: (@Sendable (URLResponse) -> (any Error)?)?
    private let listener: Listener
    /// Notified of the end of each load, including cancelled ones.
    private let monitor: @Sendable (CurlTransfer, LoadTimings, (any Error)?) -> Void

    private let cancelled = Atomic(false)
    private let gate = DeliveryGuard()
    var wakeUp: @Sendable () -> Void = {}
    /// Called on curl's thread with the first bytes since ``deliver()``.
    var didBuffer: (CurlTransfer) -> Void = { _ in }

    private var hop: URLRequest
    private var redirects: Redirects
    /// The request in progress.
    private(set) var curlRequest: CurlRequest?
    private var started: ContinuousClock.Instant?
    private var timings = LoadTimings()
    /// Whether the listener has timings from before the end.
    private var hasReported = false
    /// The current response, once it has passed validation.
    private var response: URLResponse?
    /// Why the current response failed validation.
    private var validationError: (any Error)?
    private var failure: (any Error)?
    /// Body bytes received but not delivered yet.
    private var undelivered = Data()
    /// The status of the last redirect; nil without one.
    private var redirectStatus: Int?
    /// Number of body bytes that were discarded, of an error or of a redirect.
    private var discardedBytes = 0
    /// The first bytes of an error response, which may explain the error.
    private var errorBody = Data()

    init(
        request: URLRequest,
        configuration: DataLoader.Configuration,
        validate: (@Sendable (URLResponse) -> (any Error)?)?,
        listener: Listener,
        monitor: @escaping @Sendable (CurlTransfer, LoadTimings, (any Error)?) -> Void
    ) {
        self.request = request
        isFTP = request.url?.scheme?.lowercased() == "ftp"
        self.configuration = configuration
        self.validate = validate
        self.listener = listener
        self.monitor = monitor
        hop = request
        redirects = Redirects(limit: configuration.maximumRedirects)
    }

    var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func cancel() {
        cancelled.store(true, ordering: .releasing)
        gate.close()
        wakeUp()
    }

    /// Notifies the monitor and then, unless it has cancelled, the caller. No closure is called afterwards.
    func finish(_ error: (any Error)?) {
        curlRequest = nil
        let error = error.map(described)
        if let started { timings.total = started.duration(to: .now).inSeconds }
        monitor(self, timings, isCancelled ? cancellation : error)
        gate.end {
            listener.didCollect(timings)
            listener.completion(error)
        }
    }

    /// Adds stage, URL and excerpt of the body to an error that lacks them.
    private func described(_ error: any Error) -> any Error {
        guard var error = error as? ImageError else { return error }
        error.stage = error.stage ?? .load
        error.url = error.url ?? request.url.map(ImageError.withoutQuery)
        if isS3, let url = request.url {
            error.excerpt = error.excerpt ?? S3Problem.excerpt(errorBody)
            let signing = S3Problem.Signing(configuration.credentials, for: url, named: request.credentialName)
            if let reason = S3Problem.refusal(error, url, signing) {
                error.message = FieldProblem.sentence(
                    "\(error.message.dropLast(error.message.hasSuffix(".") ? 1 : 0)): \(reason)"
                )
            } else if error.code == .accessDenied, let remark = signing.remark {
                error.message += " \(remark)"
            } else if error.status == 404, !url.path.hasSuffix("/"), url.pathExtension.isEmpty {
                error.message += " If it is a prefix, end it with a slash to name all images below it."
            }
        }
        return error.with(nil, errorBody)
    }

    /// Whether the request is for S3, which is never left by a redirect.
    private var isS3: Bool { request.url?.scheme?.lowercased() == "s3" }

    /// Name of the request in messages.
    private var target: String {
        let first = request.url?.redacted ?? ""
        guard redirects.count > 0, let last = hop.url?.redacted else { return first }
        return "\(first) (redirected to \(last))"
    }

    private var cancellation: ImageError {
        ImageError(.cancelled, "The fetch of \(target) was cancelled.")
    }

    // MARK: - Hops

    /// Prepares the next request.
    ///
    /// - Returns: its handle, valid until the next call of `begin`, `ended` or `finish`.
    func begin(_ activity: ConnectionActivity) throws(ImageError) -> UnsafeMutableRawPointer {
        let now = ContinuousClock.now
        let started = started ?? now
        if self.started == nil, let name = request.credentialName, let url = request.url {
            try configuration.credentials.check(name, for: url)
        }
        self.started = started
        let left = configuration.timeout - started.duration(to: now)
        guard left > .zero else { throw timeout(.totalTime) }
        let prepared: PreparedRequest
        do throws(ImageError) {
            prepared = try PreparedRequest(hop, configuration)
        } catch  where redirects.count > 0 {
            throw redirectError(
                error,
                "\(request.url?.redacted ?? "") redirects to a URL that is not allowed: \(error.message)"
            )
        }
        response = nil
        validationError = nil
        discardedBytes = 0
        errorBody = Data()
        // Unowned: the transfer owns the request and outlives it.
        let next = try CurlRequest(prepared, configuration, time: left, activity: activity) { [unowned self] in
            receive($0)
        }
        curlRequest = next
        return next.easy
    }

    /// The error of a redirect that is not followed. The origin has answered with it, so that it has a status: without
    /// one the URL of the request itself would be at fault.
    private func redirectError(_ error: ImageError, _ message: String) -> ImageError {
        ImageError(error.code, message, status: redirectStatus)
    }

    /// Decides the next step after the current request. Its handle has been removed from the multi handle already.
    func ended(_ result: CURLcode) -> Step {
        guard let curlRequest else { return .finished(cancellation) }
        deliver()
        curlRequest.add(to: &timings)
        defer { self.curlRequest = nil }
        if let failure = failure ?? curlRequest.failure { return .finished(failure) }
        let isWhole = result == CURLE_OK || (discardedBytes > 0 && result == CURLE_WRITE_ERROR)
        do throws(ImageError) {
            if isWhole, try follow(curlRequest) { return .next }
        } catch {
            let text = "\(request.url?.redacted ?? "") has a redirect that cannot be followed: \(error.message)"
            return .finished(redirectError(error, text))
        }
        // The header is enough to know an invalid response, even if its body stalls or is cut off. A redirect would
        // have been followed with its body: its error is that of the body.
        let isKnown = curlRequest.hasWholeHeader && !isRedirect(curlRequest)
        if curlRequest.status > 0, result == CURLE_OK || discardedBytes > 0 || isKnown { evaluateResponse(curlRequest) }
        if let validationError { return .finished(validationError) }
        guard result == CURLE_OK else { return .finished(error(result, curlRequest)) }
        // An empty body (a 304, for example) causes no write callback: the caller receives empty data with the
        // response.
        if timings.bytes == 0, let response { gate.call { listener.didReceiveData(Data(), response) } }
        return .finished(nil)
    }

    private func isRedirect(_ curlRequest: CurlRequest) -> Bool {
        Redirects.isRedirect(curlRequest.status) && curlRequest.location != nil
    }

    /// Whether the response is a redirect to follow; `hop` is then the next request.
    private func follow(_ curlRequest: CurlRequest) throws(ImageError) -> Bool {
        // A signature is valid for one host only. S3 redirects to the bucket's correct region, which has to be
        // configured.
        if isS3 { return false }
        if isRedirect(curlRequest) { redirectStatus = curlRequest.status }
        let next = try redirects.next(after: hop, status: curlRequest.status, location: curlRequest.location)
        guard let next else { return false }
        hop = next
        timings.redirects = redirects.count
        if let stated = HTTPFreshness.statedLifetime(curlRequest.headers) {
            timings.redirectLifetime = min(stated, timings.redirectLifetime ?? stated)
        }
        return true
    }

    // MARK: - The body

    private func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let curlRequest, !gate.isClosed else { return false }
        if discardedBytes > 0 { return discard(bytes) }
        if response == nil {
            // The body of a redirect or an error is discarded. It is read, up to a limit, so that the connection can be
            // reused. A redirect of S3 is an error, whose body has the reason.
            if isRedirect(curlRequest) && !isS3 { return discard(bytes) }
            evaluateResponse(curlRequest)
            if validationError != nil { return discard(bytes) }
            let length = curlRequest.announcedLength ?? 0
            if length > configuration.maximumBodySize { return refuseSize("announces \(length) bytes, more") }
        }
        timings.bytes += bytes.count
        guard timings.bytes <= configuration.maximumBodySize else { return refuseSize("sends more") }
        let (least, most) = (Self.deliverySizes.lowerBound, Self.deliverySizes.upperBound)
        let size = min(most, max(least, timings.bytes / 4))
        if undelivered.isEmpty {
            undelivered.reserveCapacity(min(curlRequest.announcedLength ?? 0, size))
            didBuffer(self)
        }
        undelivered.append(contentsOf: bytes)
        if undelivered.count >= size { deliver() }
        return true
    }

    /// Sizes at which buffered bytes are delivered: a quarter of those before, within this range. A caller that needs
    /// only the first bytes should receive few more, and each call costs time.
    private static let deliverySizes = (32 << 10)...(256 << 10)

    /// Delivers the buffered bytes to the caller. Called after curl has read everything available: curl passes a body
    /// on in pieces of 16 KiB (CURL_MAX_WRITE_SIZE), and a call for each of them cost more than receiving it.
    func deliver() {
        guard !undelivered.isEmpty, let response else { return }
        let data = undelivered
        undelivered = Data()
        reportEarly()
        gate.call { listener.didReceiveData(data, response) }
    }

    /// Reports the address and other timings with the first bytes of a longer body: a caller that needs no more of it
    /// cancels, and would not receive them at the end.
    private func reportEarly() {
        guard !hasReported, let curlRequest, curlRequest.announcedLength ?? 0 > timings.bytes else { return }
        hasReported = true
        var early = timings
        curlRequest.add(to: &early)
        gate.call { listener.didCollect(early) }
    }

    private func discard(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if validationError != nil { errorBody.append(contentsOf: bytes.prefix(Excerpt.bytes - errorBody.count)) }
        discardedBytes += bytes.count
        return discardedBytes <= CurlRequest.headerLimit
    }

    private func refuseSize(_ what: String) -> Bool {
        failure = ImageError(
            LoadLimit.bodySize.code,
            "\(target) \(what) than the limit of \(configuration.maximumBodySize) bytes "
                + "(DataLoader.Configuration.maximumBodySize)."
        ).with(response)
        return false
    }

    /// Validates status and header fields of a response, once.
    private func evaluateResponse(_ curlRequest: CurlRequest) {
        guard response == nil, validationError == nil, let url = curlRequest.prepared.request.url else { return }
        if curlRequest.prepared.ftpPort != nil {
            let length = curlRequest.announcedLength ?? -1
            response = URLResponse(url: url, mimeType: nil, expectedContentLength: length, textEncodingName: nil)
            return
        }
        let answer = HTTPURLResponse(
            url: url,
            statusCode: curlRequest.status,
            httpVersion: curlRequest.httpVersion.map { "HTTP/\($0)" },
            headerFields: curlRequest.headers
        )
        // A 304 to a conditional request is a success, whatever the rules say.
        if curlRequest.status != 304 || !request.isConditional {
            if let validate {
                validationError = answer.flatMap(validate)
            } else {
                let (status, headers) = (curlRequest.status, curlRequest.headers)
                validationError = ResponseRules.validationError(status: status, headers: headers, of: hop, url: target)?
                    .with(answer)
            }
        }
        if validationError == nil, curlRequest.hasInvalidLength {
            validationError = ImageError(.badResponse, "\(target) sent an invalid Content-Length.")
        }
        if validationError == nil { response = answer }
    }

    // MARK: - Errors

    private func timeout(_ limit: LoadLimit) -> ImageError {
        let what =
            switch limit {
            case .connectTime: "did not connect within \(configuration.connectTimeout), the limit of a connection"
            case .speed:
                "was slower than \(configuration.lowSpeedLimit) bytes a second for \(configuration.lowSpeedTime), "
                    + "the limit of a stall"
            default: "took longer than \(configuration.timeout), the limit of a fetch"
            }
        return ImageError(limit.code, "\(target) \(what).")
    }

    private func error(_ result: CURLcode, _ curlRequest: CurlRequest) -> ImageError {
        if result == CURLE_OPERATION_TIMEDOUT {
            // libcurl has one code for three time limits, and counts in whole milliseconds.
            let total = started.map { $0.duration(to: .now) } ?? .zero
            if total + .milliseconds(2) >= configuration.timeout { return timeout(.totalTime) }
            return timeout(curlRequest.wasConnected ? .speed : .connectTime)
        }
        if let refusal = curlRequest.refusal, [CURLE_COULDNT_CONNECT, CURLE_ABORTED_BY_CALLBACK].contains(result) {
            return ImageError(.forbidden, "\(target) is not fetched: \(refusal).")
        }
        if let fault = curlRequest.fault(result) {
            // The host is not to blame, and no attempt counts.
            return ImageError(
                .throttled,
                "This process can open no connection to \(target): \(fault).",
                retryAfter: 1
            )
        }
        if let reason = curlRequest.reasonUnreadable(result) {
            return ImageError(.badResponse, "\(target) \(reason).")
        }
        let (code, text) = (CurlTransfer.code(of: result), String(cString: curl_easy_strerror(result)))
        var reason = isS3 && code == .unreachable ? S3Problem.unreachable(configuration.s3, text) : text
        if result == CURLE_PEER_FAILED_VERIFICATION && !isS3 {
            reason += "; set DataLoader.Configuration.caFile if its certificate is of a private authority"
        }
        return ImageError(code, "\(target) could not be fetched: \(reason).")
    }

    private static func code(of result: CURLcode) -> ImageError.Code {
        switch result {
        case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL: .invalidURL
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
            CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR:
            .tls
        case CURLE_PARTIAL_FILE, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_HTTP2, CURLE_HTTP2_STREAM,
            CURLE_SEND_ERROR:
            .incompleteBody
        case CURLE_REMOTE_FILE_NOT_FOUND, CURLE_FTP_COULDNT_RETR_FILE: .notFound
        case CURLE_LOGIN_DENIED, CURLE_REMOTE_ACCESS_DENIED: .accessDenied
        default: .unreachable
        }
    }
}

/// Limits of a load, with the error code for each.
enum LoadLimit {
    case headerSize
    case bodySize
    case connectTime
    case totalTime
    case speed

    var code: ImageError.Code {
        switch self {
        case .headerSize: .headerTooLarge
        case .bodySize: .dataTooLarge
        case .connectTime: .connectTimedOut
        case .totalTime: .timedOut
        case .speed: .tooSlow
        }
    }
}
