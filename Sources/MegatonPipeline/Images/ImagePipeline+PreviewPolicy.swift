public import Foundation

extension ImagePipeline {
    /// The previews of an image that is still downloading: Nuke's policies.
    public enum PreviewPolicy: String, Sendable, CaseIterable {
        /// A preview after each scan of a progressive JPEG; for baseline JPEGs, the rows received so far.
        case incremental
        /// The small image that cameras embed in EXIF, once.
        case thumbnail
        case disabled

        /// Incremental for progressive JPEGs, whose first scans show the whole image; disabled otherwise.
        ///
        /// Nuke also previews the first frame of a GIF; here that would be the whole image.
        public static func `default`(for data: Data) -> PreviewPolicy {
            JPEGScans(data).isProgressive ? .incremental : .disabled
        }
    }
}
