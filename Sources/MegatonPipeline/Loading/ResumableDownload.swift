internal import Foundation
internal import FoundationNetworking

/// One download that goes on where an earlier one was cut off. It sends nothing itself: whoever loads tells it what has
/// come, and is told what to do.
struct ResumableDownload {
    /// How a load has ended.
    enum Outcome {
        /// The whole body, with the answer that it belongs to: also of a continued one that is 200.
        case done(Data, URLResponse?)
        /// What was kept is of no use: the request is to be sent once more, without a range. Happens once.
        case again
        /// What is worth being kept for the next attempt; nil where that is to begin anew.
        case failed(ImagePipeline.Error, kept: ResumableData?)
    }

    /// What is to be sent.
    private(set) var request: URLRequest
    /// From the first byte on.
    private var buffer: BodyBuffer
    private let spool: BodySpool
    /// The error that keeps the bytes from being held. The load is to be given up.
    private(set) var failure: ImagePipeline.Error?
    private let plain: URLRequest
    /// What the request that is sent shows beyond this one. To be set before anything comes.
    var hidden: HiddenFields
    private let limits: ResumableData.Limits
    /// Before there is a response: what is to be resumed; with one: what it has continued.
    private var partial: ResumableData?
    /// What the failure of the origin leaves as it was.
    private var untouched: ResumableData?
    private(set) var response: URLResponse?

    /// - Parameters:
    ///   - request: without a range.
    ///   - partial: what an earlier attempt has left.
    ///   - hidden: nothing unless it is said; what the request shows itself is seen.
    ///   - spool: where the body is while it comes; in memory by default.
    init(
        _ request: URLRequest,
        resuming partial: ResumableData?,
        hidden: HiddenFields? = nil,
        limits: ResumableData.Limits = ResumableData.Limits(),
        spool: BodySpool = BodySpool()
    ) {
        self.spool = spool
        buffer = BodyBuffer(spool)
        plain = request
        self.request = request
        self.hidden = hidden ?? HiddenFields(sent: request, known: request, scope: nil)
        self.limits = limits
        if let partial, partial.total <= limits.most, partial.resume(&self.request) { self.partial = partial }
    }

    /// The bytes so far. Of a large body these are the bytes of a file.
    var body: Data { buffer.snapshot }
    /// Bytes of what has come so far.
    var count: Int { buffer.count }

    /// Bytes of the whole body, with those that were kept; the total is nil where it is not known.
    var progress: (completed: Int, total: Int?) {
        if let partial { return (max(count, partial.data.count), partial.total) }
        let expected = response?.expectedContentLength ?? -1
        return (count, expected > 0 ? Int(clamping: expected) : nil)
    }

    /// Takes what has come.
    ///
    /// - Returns: false where the load is to be cancelled: `request` is to be sent once more, unless there is a `failure`.
    mutating func receive(_ chunk: Data, _ response: URLResponse) -> Bool {
        do throws(ImagePipeline.Error) {
            return try take(chunk, response)
        } catch {
            failure = error
            return false
        }
    }

    private mutating func take(_ chunk: Data, _ response: URLResponse) throws(ImagePipeline.Error) -> Bool {
        if self.response == nil, let partial {
            switch partial.splice(with: response as? HTTPURLResponse) {
            case .append: try buffer.append(partial.data, total: partial.total)
            case .restart: self.partial = nil
            case .forget(let retries):
                forget()
                if retries { return false }
            case .keep: (self.partial, untouched) = (nil, partial)
            }
        }
        self.response = response
        try buffer.append(chunk, total: progress.total.map { min($0, limits.most) })
        return true
    }

    /// - Parameter error: nil where all has come.
    mutating func end(_ error: ImagePipeline.Error?) -> Outcome {
        guard let error else {
            guard let partial, let rest = response as? HTTPURLResponse else { return done(response) }
            if count == partial.total { return done(partial.whole(with: rest) ?? rest) }
            let missing = ImagePipeline.Error(
                .incompleteBody,
                "\(plain.url?.redacted ?? "") gave \(count) of \(partial.total) bytes: try again."
            )
            return end(missing)
        }
        guard response == nil else { return .failed(error.with(response, buffer.prefix(Excerpt.bytes)), kept: kept) }
        guard let partial else { return .failed(error, kept: nil) }
        switch partial.splice(after: error) {
        case .keep, .append: return .failed(error, kept: partial)
        case .restart: return .failed(error, kept: nil)
        case .forget(let retries):
            forget()
            return retries ? .again : .failed(error, kept: nil)
        }
    }

    private func done(_ response: URLResponse?) -> Outcome {
        do throws(ImagePipeline.Error) {
            return .done(try buffer.data(), response)
        } catch {
            return .failed(error, kept: nil)
        }
    }

    /// What is worth being kept if the load ends here.
    var kept: ResumableData? {
        if let untouched { return untouched }
        return ResumableData(
            request: plain,
            response: response,
            count: count,
            data: { buffer.snapshot },
            continuing: partial,
            hidden: hidden,
            limits: limits
        )
    }

    /// Lets go of the bytes once the outcome is known.
    mutating func clear() {
        buffer = BodyBuffer(spool)
        (partial, untouched) = (nil, nil)
    }

    private mutating func forget() {
        partial = nil
        request = plain
    }
}
