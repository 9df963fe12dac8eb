//! Selects the store for an address, and configures it from the environment variables that each store's own tools use.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::{Position, Url};

/// Where an object is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
}

/// A request that fails is made so often again.
const RETRIES: usize = 4;
/// No request is made again after that.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// A server that does not answer by then is none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// One that has not sent a range by then has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

fn retries() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT }
}

/// Finds the store of an address.
pub(crate) fn find(address: &str) -> Result<Place, String> {
    let url = Url::parse(address).map_err(|error| format!("is no address of an object: {error}"))?;
    let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|_| {
        format!(
            "{}:// is not a store that memtap knows; it knows s3, gs, az, abfs, http and https",
            url.scheme()
        )
    })?;
    let path = Path::parse(path).map_err(|error| format!("is no address of an object: {error}"))?;
    if let (ObjectStoreScheme::Http, Some(_)) = (&scheme, url.query()) {
        return Err(
            "has a question mark: signed addresses are not read; give the store's own, s3:// for example"
                .to_owned(),
        );
    }
    let client = ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT).with_timeout(TIMEOUT);
    let store: Result<Arc<dyn ObjectStore>, object_store::Error> = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            // Without encryption only where somebody says so; that is a setting of the client.
            let allows_http = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true");
            let builder = AmazonS3Builder::from_env()
                .with_url(address)
                .with_client_options(client.with_allow_http(allows_http));
            builder.with_retry(retries()).build().map(|store| Arc::new(store) as _)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            // An address without encryption is one that somebody chose.
            let base = std::env::var("GOOGLE_BASE_URL");
            let client = client.with_allow_http(base.is_ok_and(|base| base.starts_with("http://")));
            let builder = GoogleCloudStorageBuilder::from_env().with_url(address).with_client_options(client);
            builder.with_retry(retries()).build().map(|store| Arc::new(store) as _)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(address).with_client_options(client);
            builder.with_retry(retries()).build().map(|store| Arc::new(store) as _)
        }
        ObjectStoreScheme::Http => {
            let client = client.with_allow_http(url.scheme() == "http");
            let builder =
                HttpBuilder::new().with_url(&url[..Position::BeforePath]).with_client_options(client);
            builder.with_retry(retries()).build().map(|store| Arc::new(store) as _)
        }
        _ => return Err(format!("{}:// is no store of objects; give the path of a file", url.scheme())),
    };
    let store = store.map_err(|error| {
        let words = crate::words::said_by(&error);
        format!("its store is not set up: {words} (docs/guide.md, Traces in object stores)")
    })?;
    Ok(Place { store, path })
}
