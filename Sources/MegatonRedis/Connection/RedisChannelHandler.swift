import NIOCore

/// Matches replies to commands in order, closes the connection when one is overdue, and hands push messages of a
/// subscriber to its callback.
///
/// Lives on its channel's event loop.
final class RedisChannelHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// Commands that were written together and are answered together.
    private struct Batch {
        var missing: Int
        var replies: [RedisValue]
        let deadline: NIODeadline
        let promise: EventLoopPromise<[RedisValue]>
    }

    private let reader = RedisReplyReader()
    private var pending = CircularBuffer<Batch>()
    private var overdueCheck: (timer: Scheduled<Void>, at: NIODeadline)?
    private var context: ChannelHandlerContext?
    private var failure: RedisError?
    private var isFlushScheduled = false
    /// Set once the connection has become a subscriber's: nothing is pending from then on.
    var onPush: (([RedisValue]) -> Void)?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        // A subscriber's callback holds its connection, and the connection us.
        onPush = nil
    }

    func send(_ commands: [RedisCommand], deadline: NIODeadline, promise: EventLoopPromise<[RedisValue]>) {
        guard let context, failure == nil, context.channel.isActive else {
            promise.fail(failure ?? RedisError(.connectionClosed, "The connection to Redis is closed."))
            return
        }
        // Pending before it is written: a flush that fails closes the channel there and then, and whoever is not pending
        // by that time would never be told.
        if onPush == nil {
            pending.append(Batch(missing: commands.count, replies: [], deadline: deadline, promise: promise))
            scheduleOverdueCheck(context)
        }
        var encoder = RedisCommandEncoder(allocator: context.channel.allocator)
        for command in commands { encoder.encode(command) }
        for part in encoder.finish() { context.write(NIOAny(part), promise: nil) }
        flushSoon(context)
        if onPush != nil { promise.succeed([]) }
    }

    /// Once for all that is sent in the same turn of the event loop: under load the commands of many tasks go in one system
    /// call, and their answers come in one.
    private func flushSoon(_ context: ChannelHandlerContext) {
        if isFlushScheduled { return }
        isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.context?.flush()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        do throws(RedisError) {
            for reply in try reader.read(&bytes) { try accept(reply) }
        } catch {
            fail(error, context: context)
        }
    }

    private func accept(_ reply: RedisValue) throws(RedisError) {
        if let onPush {
            onPush(reply.array ?? [reply])
            return
        }
        guard !pending.isEmpty else {
            throw RedisError(.protocolError, "Redis answered although nothing was asked.")
        }
        pending[pending.startIndex].replies.append(reply)
        pending[pending.startIndex].missing -= 1
        if pending[pending.startIndex].missing == 0 {
            let batch = pending.removeFirst()
            batch.promise.succeed(batch.replies)
            if let context { scheduleOverdueCheck(context) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(RedisError(.connectionClosed, "Redis closed the connection."), context: context)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(RedisError(.connectionClosed, "The connection to Redis failed: \(error)"), context: context)
    }

    /// After a failure the stream's position is not known: the connection is never used again.
    private func fail(_ error: RedisError, context: ChannelHandlerContext) {
        guard failure == nil else { return }
        failure = error
        overdueCheck?.timer.cancel()
        let batches = pending
        pending.removeAll()
        context.close(promise: nil)
        for batch in batches { batch.promise.fail(error) }
    }

    /// One timer for the first in line is enough: replies come in order, so whoever is overdue waits behind it or is
    /// it. The timer is moved only for a first whose deadline is earlier, so that most commands cost none.
    private func scheduleOverdueCheck(_ context: ChannelHandlerContext) {
        guard let first = pending.first else { return }
        if let overdueCheck {
            if overdueCheck.at <= first.deadline { return }
            overdueCheck.timer.cancel()
        }
        let timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: first.deadline) { [weak self] in
            guard let self, let context = self.context else { return }
            self.overdueCheck = nil
            if let first = self.pending.first, first.deadline <= .now() {
                self.fail(
                    RedisError(.timeout, "Redis did not answer in time; the connection was closed."),
                    context: context
                )
            } else {
                self.scheduleOverdueCheck(context)
            }
        }
        overdueCheck = (timer, first.deadline)
    }
}
