internal import CCurl
internal import Foundation

/// libcurl's multi handle, with a thread of its own on which all transfers run.
///
/// `@unchecked Sendable`: `arrivals`, `isStopped` and `isClosed` are used only with the lock held, the rest only on the
/// thread; `curl_multi_wakeup` may be called from any thread while the handle exists.
final class CurlMulti: @unchecked Sendable {
    /// Transfers that wait for the thread. Bounded by the callers, each of which waits for its own transfer.
    private var arrivals: [CurlTransfer] = []
    private var isStopped = false
    private var isClosed = false
    private let lock = NSLock()
    private let multi: UnsafeMutableRawPointer?
    private var transfers: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    private let activity = ConnectionActivity()

    private static let globalInit: CURLcode = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    init(_ configuration: DataLoader.Configuration) {
        _ = Self.globalInit
        multi = curl_multi_init()
        guard let multi else { return }
        megaton_curl_multi_setopt_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX))
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, configuration.maximumHostConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, configuration.maximumConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, configuration.maximumConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, configuration.maximumConcurrentStreams)
        KernelThread.start("megaton-curl", stackSize: 1 << 20) { [self] in if let multi = self.multi { run(multi) } }
    }

    /// Hands a transfer to the thread.
    func start(_ transfer: CurlTransfer) {
        transfer.wakeUp = { [weak self] in self?.wakeUp() }
        let isAccepted = lock.withLock {
            guard !isStopped, multi != nil else { return false }
            arrivals.append(transfer)
            return true
        }
        if isAccepted {
            wakeUp()
        } else {
            transfer.finish(ImageError(.cancelled, "The loader was stopped."))
        }
    }

    /// Ends the thread; transfers in progress fail with `.cancelled`.
    func stop() {
        lock.withLock { isStopped = true }
        wakeUp()
    }

    /// Holds the lock, so that the handle is not freed meanwhile: a transfer may be cancelled after the loader was
    /// stopped.
    private func wakeUp() {
        lock.withLock { if let multi, !isClosed { curl_multi_wakeup(multi) } }
    }

    // MARK: - On the thread

    private func run(_ multi: UnsafeMutableRawPointer) {
        while true {
            let (new, isStopped) = lock.withLock {
                defer { arrivals = [] }
                return (arrivals, self.isStopped)
            }
            if isStopped {
                for transfer in new { transfer.finish(ImageError(.cancelled, "The loader was stopped.")) }
                break
            }
            for transfer in new { add(transfer, to: multi) }
            removeCancelled(from: multi)
            var running: Int32 = 0
            curl_multi_perform(multi, &running)
            for transfer in transfers.values { transfer.deliver() }
            collect(multi)
            // Returns on socket activity, `wakeUp` or curl's own timers; the limit is for the case that all three fail.
            curl_multi_poll(multi, nil, 0, 1000, nil)
        }
        for (easy, transfer) in transfers {
            curl_multi_remove_handle(multi, easy)
            transfer.finish(ImageError(.cancelled, "The loader was stopped."))
        }
        transfers = [:]
        lock.withLock {
            isClosed = true
            curl_multi_cleanup(multi)
        }
    }

    /// Starts the next request of a transfer, unless it is cancelled.
    private func add(_ transfer: CurlTransfer, to multi: UnsafeMutableRawPointer) {
        guard !transfer.isCancelled else { return transfer.finish(nil) }
        do throws(ImageError) {
            let easy = try transfer.begin(activity)
            curl_multi_add_handle(multi, easy)
            transfers[easy] = transfer
        } catch {
            transfer.finish(error)
        }
    }

    private func removeCancelled(from multi: UnsafeMutableRawPointer) {
        for (easy, transfer) in transfers where transfer.isCancelled {
            remove(easy, from: multi)
            transfer.finish(nil)
        }
    }

    /// The transfer frees the handle itself, after this.
    private func remove(_ easy: UnsafeMutableRawPointer, from multi: UnsafeMutableRawPointer) {
        curl_multi_remove_handle(multi, easy)
        transfers[easy] = nil
    }

    /// If the connection of a request that has timed out is silent, closes it after its last request, and lets requests
    /// without a connection open others.
    private func noteTimeout(_ request: CurlRequest) {
        guard let connection = request.connection, let sent = request.sent,
            activity.timedOut(connection, sent: sent, now: .now)
        else { return }
        for other in transfers.values.compactMap(\.curlRequest) where other.origin == request.origin {
            if other.connection === connection { other.setReuse(false) }
            if other.connection == nil { other.avoidOpenConnections() }
        }
    }

    private func collect(_ multi: UnsafeMutableRawPointer) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            let result = message.pointee.data.result
            guard let transfer = transfers[easy] else { continue }
            remove(easy, from: multi)
            if result == CURLE_OPERATION_TIMEDOUT, let request = transfer.curlRequest { noteTimeout(request) }
            switch transfer.ended(result) {
            case .next: add(transfer, to: multi)
            case .finished(let error): transfer.finish(error)
            }
        }
    }
}
