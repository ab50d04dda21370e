package import Foundation
package import FoundationNetworking

/// A download that continues where an earlier one was interrupted. Pure state, no I/O: the loading code passes in each
/// chunk and acts on the results.
package struct ResumableDownload {
    /// Outcome of a load.
    package enum Outcome {
        /// The whole body with its response, which is a 200 for a resumed body too.
        case done(Data, URLResponse?)
        /// The first bytes of the body, which are enough, with the response for all of it.
        case enough(Data, URLResponse?)
        /// The stored part was useless: the request has to be sent once more, without a range. Happens at most once.
        case again
        /// `kept` is the part worth storing for the next attempt; nil if that has to start from the first byte.
        case failed(ImageError, kept: ResumableData?)
    }

    /// The request to send.
    package private(set) var request: URLRequest
    /// Body from the first byte on.
    private var buffer: BodyBuffer
    private let spool: BodySpool
    /// The error that keeps the bytes from being stored. The load has to be cancelled.
    private(set) var failure: ImageError?
    private let plain: URLRequest
    /// Unkeyed headers of the request as sent. Has to be set before the first chunk.
    package var unkeyed: UnkeyedHeaders
    private let limits: ResumableData.Limits
    /// Before the response: the part to resume. Afterwards: the part that the response continues.
    private var partial: ResumableData?
    /// The part that is still valid after a failure of the origin.
    private var untouched: ResumableData?
    package private(set) var response: URLResponse?

    /// - Parameters:
    ///   - request: without a range.
    ///   - partial: the part that an earlier attempt left.
    ///   - unkeyed: unkeyed headers of the request; nil if it is sent as it is.
    ///   - spool: storage for the body while it arrives; memory by default.
    package init(
        _ request: URLRequest,
        resuming partial: ResumableData?,
        unkeyed: UnkeyedHeaders? = nil,
        limits: ResumableData.Limits = ResumableData.Limits(),
        spool: BodySpool = BodySpool()
    ) {
        self.spool = spool
        buffer = BodyBuffer(spool)
        plain = request
        self.request = request
        self.unkeyed = unkeyed ?? UnkeyedHeaders(sent: request, known: request, scope: nil)
        self.limits = limits
        if let partial, partial.total <= limits.most, partial.resume(&self.request) { self.partial = partial }
    }

    /// The bytes so far; those of a large body are mapped from a file.
    package var body: Data { buffer.snapshot }
    /// Calls a closure with the bytes so far, which it must not keep.
    func withBytes<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value { buffer.withBytes(body) }

    /// Number of bytes so far, including resumed ones.
    var count: Int { buffer.count }

    /// Bytes of the whole body so far, including resumed ones; the total is nil if it is unknown.
    var progress: (completed: Int, total: Int?) {
        if let partial { return (max(count, partial.data.count), partial.total) }
        let expected = response?.expectedContentLength ?? -1
        return (count, expected > 0 ? Int(clamping: expected) : nil)
    }

    /// Adds a chunk.
    ///
    /// - Returns: false if the load has to be cancelled; `request` has to be sent once more then, unless there is a
    ///   `failure`.
    mutating func receive(_ chunk: Data, _ response: URLResponse) -> Bool {
        do throws(ImageError) {
            return try take(chunk, response)
        } catch {
            failure = error
            return false
        }
    }

    private mutating func take(_ chunk: Data, _ response: URLResponse) throws(ImageError) -> Bool {
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

    /// - Parameter error: nil if the loader reported success.
    mutating func end(_ error: ImageError?) -> Outcome {
        guard let error else {
            guard let partial, let rest = response as? HTTPURLResponse else { return done(response) }
            if count == partial.total { return done(partial.whole(with: rest) ?? rest) }
            let missing = ImageError(
                .incompleteBody,
                "\(plain.url?.redacted ?? "") sent \(count) of \(partial.total) bytes; a retry continues there."
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

    /// Whether the response is for the whole body, from its first byte on.
    var isWhole: Bool { partial == nil && (response as? HTTPURLResponse)?.statusCode == 200 }

    /// Ends the load with the bytes so far.
    mutating func endEarly() -> Outcome {
        switch done(response) {
        case .done(let data, let response): .enough(data, response)
        case let failure: failure
        }
    }

    private func done(_ response: URLResponse?) -> Outcome {
        do throws(ImageError) {
            return .done(try buffer.data(), response)
        } catch {
            return .failed(error, kept: nil)
        }
    }

    /// The part worth storing if the load ends here.
    package var kept: ResumableData? {
        if let untouched { return untouched }
        return ResumableData(
            request: plain,
            response: response,
            count: count,
            data: { buffer.snapshot },
            continuing: partial,
            unkeyed: unkeyed,
            limits: limits
        )
    }

    /// Releases the bytes once the outcome is known.
    mutating func clear() {
        buffer = BodyBuffer(spool)
        (partial, untouched) = (nil, nil)
    }

    private mutating func forget() {
        partial = nil
        request = plain
    }
}
