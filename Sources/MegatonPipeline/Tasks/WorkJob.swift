/// Work of a node, in one of two forms.
struct WorkJob<Value: Sendable>: Sendable {
    let start: @Sendable (WorkContext<Value>) -> Void

    /// Work that is started by a synchronous call on the first subscriber's thread, which must not block.
    ///
    /// It may finish immediately (a hit in memory), or keep the context and finish later.
    static func starting(_ start: @escaping @Sendable (WorkContext<Value>) -> Void) -> WorkJob { WorkJob(start: start) }

    /// Work in a Swift task of its own, which is cancelled when the last subscriber leaves.
    static func running(
        _ body: @escaping @Sendable (WorkContext<Value>) async throws(ImageError) -> Value
    ) -> WorkJob {
        WorkJob { context in context.run(body) }
    }
}
