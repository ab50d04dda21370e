public import Foundation

extension ImagePipeline {
    /// What is shown of a picture before all of it has come: Nuke's policies.
    public enum PreviewPolicy: String, Sendable, CaseIterable {
        /// What there is so far, after each scan of a progressive JPEG; of others the rows that have come.
        case incremental
        /// The small picture that cameras put into EXIF, once.
        case thumbnail
        case disabled

        /// Incremental for progressive JPEG, whose first scans show all of the picture; else disabled.
        ///
        /// Nuke also shows the first frame of a GIF: here it would be the whole picture, early.
        public static func `default`(for data: Data) -> PreviewPolicy {
            JPEGScans(data).isProgressive ? .incremental : .disabled
        }
    }
}
