import Synchronization

extension ImagePipeline {
    private static let current = Mutex(ImagePipeline())

    /// Pipeline for programs that need only one, as in Nuke. It has the default configuration. Setting another pipeline
    /// affects later reads only.
    public static var shared: ImagePipeline {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }
}
