/// Where the defaults of ``DataCaching`` run that do nothing. Nothing waits here, and nobody needs it.
@globalActor public actor DataCachingDefaults {
    public static let shared = DataCachingDefaults()
}
