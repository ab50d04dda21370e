import Synchronization

extension ImagePipeline {
    private static let current = Mutex(ImagePipeline())

    /// A pipeline for those who need no more than one: Nuke's. It has the default configuration until another one is set,
    /// which those who ask later get.
    public static var shared: ImagePipeline {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }
}
